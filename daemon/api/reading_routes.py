"""Routes that change nothing: groups, history, the cluster, the pipeline and live changes."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse

from levelwind.daemon.api.api_context import ApiContext
from levelwind.daemon.api.event_stream import EventStreams
from levelwind.daemon.api.views.cluster_documents import cluster_document, pipeline_document
from levelwind.daemon.api.views.encoded_documents import (
    EncodedDocuments,
    json_answer,
    json_response,
)
from levelwind.daemon.api.views.lag_history import POINTS
from levelwind.daemon.api.wire_models import (
    ClusterDocument,
    ErrorDocument,
    GroupDocument,
    GroupList,
    HistoryDocument,
    OffsetList,
    PipelineDocument,
    StatusDocument,
)
from levelwind.daemon.service.availability.latest_facts import PATIENCE_SECONDS
from levelwind.daemon.shown_groups.group_documents import group_document
from levelwind.daemon.shown_groups.offset_rows import offset_rows
from levelwind.daemon.shown_groups.shown_group import ShownGroup

GroupOrder = Literal["group", "lag", "drain_seconds", "skew", "members", "partitions", "planned_at"]
Points = Annotated[int, Query(ge=1, le=POINTS, description="How many of the last points.")]
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorDocument, "description": "There is no such group."}
}
BUSY: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}},
    503: {"model": ErrorDocument, "description": "Too many streams are open."},
}


def group_routes(context: ApiContext) -> APIRouter:
    """Return the routes of groups and of their history."""
    router = APIRouter(prefix="/api/v1", tags=["groups"])
    view = context.view
    answer = partial(_answer, EncodedDocuments())

    def known(group: str) -> ShownGroup:
        view.refresh()
        if group not in view.groups:
            raise HTTPException(404, f"no group {group!r} is known here")
        return ShownGroup(view.groups[group])

    @router.get("/groups", response_model=GroupList)
    async def groups(
        search: Annotated[str, Query(description="Part of the name.")] = "",
        sort: Annotated[GroupOrder, Query(description="Largest first, but names first.")] = "group",
        limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    ) -> Any:
        """List the groups with lag, time to drain and skew."""
        version = view.refresh()

        def document() -> dict[str, object]:
            found = [view.summary(name) for name in sorted(view.groups) if search in name]
            if sort != "group":
                found.sort(key=lambda summary: _figure(summary[sort]), reverse=True)
            page = found[offset : offset + limit]
            return {"version": version, "total": len(found), "groups": page}

        return await answer((search, sort, limit, offset), version, document)

    @router.get("/groups/{group:name}", response_model=GroupDocument, responses=NOT_FOUND)
    async def group(group: str) -> Any:
        """Return one group: its plan, its members, and lag, owner and racks of each partition."""
        wanted = await run_in_threadpool(context.members_wanted, group)
        shown = known(group)
        state = (view.changed_in(group), view.cluster_version, wanted)
        return await answer(
            group, state, lambda: {**group_document(shown), "members_wanted": wanted}
        )

    @router.get("/offsets/{group:name}", response_model=OffsetList, responses=NOT_FOUND)
    async def offsets(group: str) -> Any:
        """Return a row for each partition of a group, as `levelwind describe` prints them.

        Without hosts and client ids of members that only the brokers know: nobody is asked.
        """
        rows = offset_rows(known(group))
        # A row is small, and encoded whole.
        return await json_answer(lambda: {"offsets": [row._asdict() for row in rows]}, depth=2)

    @router.get("/history", response_model=HistoryDocument)
    async def history(points: Points = 60) -> Any:
        """Return lag and time to drain of all groups over time."""
        view.refresh()
        taken = view.history.taken
        return await answer(("history", points), taken, lambda: view.history_document(points))

    @router.get("/history/{group:name}", response_model=HistoryDocument, responses=NOT_FOUND)
    async def group_history(group: str, points: Points = POINTS) -> Any:
        """Return lag and time to drain of one group over time."""
        known(group)
        return JSONResponse(view.history_document(points, group))

    return router


def installation_routes(context: ApiContext, streams: EventStreams) -> APIRouter:
    """Return the routes of the daemon, the brokers, the pipeline and the live changes."""
    router = APIRouter(prefix="/api/v1", tags=["installation"])
    view = context.view

    @router.get("/status", response_model=StatusDocument)
    async def status() -> Any:
        """Return the daemon's status."""
        return JSONResponse(await run_in_threadpool(context.status_document, PATIENCE_SECONDS))

    @router.get("/cluster", response_model=ClusterDocument)
    async def cluster() -> Any:
        """Return brokers and racks."""
        view.refresh()
        return JSONResponse(cluster_document(view))

    @router.get("/pipeline", response_model=PipelineDocument)
    async def pipeline() -> Any:
        """Return what the pipeline has read."""
        view.refresh()
        leading = context.readiness(0.0).role == "leader"
        return JSONResponse(pipeline_document(view, context.registry, leading=leading))

    @router.get("/events", response_class=StreamingResponse, responses=BUSY)
    async def events() -> StreamingResponse:
        """Stream changes as server-sent events.

        `status` has the daemon's status. `groups` has the lines of the groups that changed, at
        first of all, and the names of those that ended.
        """
        if streams.full:
            raise HTTPException(503, "too many streams are open")
        return StreamingResponse(streams.stream(), media_type="text/event-stream")

    return router


async def _answer(
    documents: EncodedDocuments, name: Hashable, state: Hashable, make: Callable[[], object]
) -> Response:
    return json_response(await documents.body(name, state, make))


def _figure(value: object) -> float:
    return value if isinstance(value, int | float) else -1.0
