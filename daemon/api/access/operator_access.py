"""Access of operators: a bearer token makes a request an operator's, by the name of the token."""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from levelwind.daemon.api.api_context import ApiContext
from levelwind.daemon.api.wire_models import ErrorDocument
from levelwind.daemon.levers.orders import Operator
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Throttle

log = Logger()

REFUSALS_INTERVAL_SECONDS = 10.0
"""Shortest time between two log lines about refused tokens of one client."""

BEARER = HTTPBearer(auto_error=False, description="A token of http.token_file.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorDocument, "description": "The order is not whole, or does not fit."},
    401: {"model": ErrorDocument, "description": "No token, or one that is not in the file."},
    403: {"model": ErrorDocument, "description": "This daemon has no tokens: it takes no orders."},
    404: {"model": ErrorDocument, "description": "There is no such group, plan or decision."},
    503: {"model": ErrorDocument, "description": "The cluster does not answer."},
}


def operator_access(context: ApiContext) -> Callable[..., Awaitable[Operator]]:
    """Return the dependency of routes that need an operator."""
    throttle: Throttle[str] = Throttle(interval=REFUSALS_INTERVAL_SECONDS)

    async def operator(request: Request, given: Credentials) -> Operator:
        if context.tokens is None:
            raise HTTPException(403, "this daemon has no tokens: set http.token_file")
        name = context.tokens.name_of(given.credentials) if given is not None else None
        if name is None:
            client = request.client.host if request.client else "?"
            suppressed = throttle.allows(client, time.monotonic())
            if suppressed is not None:
                log.warning("http.token_refused", client=client, suppressed=suppressed)
            raise HTTPException(
                401, "give a token of http.token_file", headers={"WWW-Authenticate": "Bearer"}
            )
        return Operator(name=f"token:{name}")

    return operator
