"""The web application: all routes, the page, and errors as documents."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from levelwind.daemon.api.access.guards import GuardedApp
from levelwind.daemon.api.operating_routes import decision_routes, lever_routes
from levelwind.daemon.api.page_routes import page_routes
from levelwind.daemon.api.probes import probe_routes
from levelwind.daemon.api.reading_routes import group_routes, installation_routes
from levelwind.daemon.api.wire_models import ErrorDocument
from levelwind.daemon.errors import (
    ClusterUnavailableError,
    ConfigurationError,
    LevelwindError,
    NotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

    from levelwind.daemon.api.api_context import ApiContext
    from levelwind.daemon.api.event_stream import EventStreams
    from levelwind.daemon.api.operating_routes import DecisionSource


class _NameConvertor(PathConvertor):
    """A name in a path, as `{group:name}`: Starlette's own path ends at a line break."""

    regex = "(?s:.*)"


register_url_convertor("name", _NameConvertor())

STATUS_OF = {NotFoundError: 404, ConfigurationError: 400, ClusterUnavailableError: 503}
"""Status of an answer, by the error that a command would end with."""

DESCRIPTION = """\
The state of a levelwind installation, as one of its daemons reads it. Lists of a topic are indexed
by partition. Requests that change something need a bearer token.
"""


def web_app(
    context: ApiContext,
    decisions: DecisionSource,
    streams: EventStreams,
    hosts: Collection[str] | None = None,
) -> GuardedApp:
    """Return the application.

    Args:
        context: what the routes show.
        decisions: where the decisions come from.
        streams: the live changes.
        hosts: names that requests may ask for; None for any.
    """
    app = FastAPI(
        title="levelwind",
        version=context.version,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(streams),
        responses={422: {"model": ErrorDocument, "description": "A parameter does not fit."}},
    )
    for router in (
        probe_routes(context),
        group_routes(context),
        installation_routes(context, streams),
        lever_routes(context),
        decision_routes(context, decisions),
        page_routes(files("levelwind.daemon.api") / "page"),
    ):
        app.include_router(router)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(LevelwindError, _unfit)
    app.add_middleware(_HeadAsGet, but=app.url_path_for("events"))
    return GuardedApp(app, hosts)


class _HeadAsGet:
    """An application that answers HEAD with what it answers GET; the server leaves out the body."""

    def __init__(self, app: ASGIApp, but: str) -> None:
        """Wrap an application.

        Args:
            app: the application.
            but: the path of the event stream, which would go on although nobody reads it.
        """
        self._app = app
        self._but = but

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["method"] == "HEAD" and scope["path"] != self._but:
            scope = {**scope, "method": "GET"}  # a copy: the server's own still says HEAD
        await self._app(scope, receive, send)


def _lifespan(streams: EventStreams) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        streams.stop()

    return lifespan


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers=headers)


async def _unfit(_: Request, error: Exception) -> Response:
    """Answer with the text of an error that a person can act on."""
    status = next((code for kind, code in STATUS_OF.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": str(error)}, status)


async def _invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    # What was sent is not repeated: it may be a token in the wrong place.
    texts = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return JSONResponse({"error": "; ".join(texts)}, 422)
