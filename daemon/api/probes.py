"""Probes and metrics: for supervisors, load balancers and Prometheus."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import choose_encoder

from levelwind.daemon.api.api_context import ApiContext
from levelwind.daemon.api.wire_models import HealthDocument, StatusDocument
from levelwind.daemon.service.availability.latest_facts import PATIENCE_SECONDS

RESPONSES_OF_READINESS: dict[int | str, dict[str, Any]] = {
    503: {"model": StatusDocument, "description": "Not ready: its topics are still being read."}
}


def probe_routes(context: ApiContext) -> APIRouter:
    """Return the routes of the probes."""
    router = APIRouter(tags=["probes"])

    @router.get("/healthz", response_model=HealthDocument)
    async def healthz() -> Any:
        """Answer while the process does; a supervisor restarts one that does not."""
        return JSONResponse({"status": "ok"})

    @router.get("/readyz", response_model=StatusDocument, responses=RESPONSES_OF_READINESS)
    async def readyz() -> Any:
        """Say whether the daemon leads or could take over at once, and whether it is frozen.

        A frozen daemon is ready: it does what it should, and shows why.
        """
        document = await run_in_threadpool(context.status_document, PATIENCE_SECONDS)
        return JSONResponse(document, 200 if document["ready"] else 503)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}},
    )
    async def metrics(request: Request) -> Response:
        """Return the metrics for Prometheus, in the format that it asks for."""
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        # In a thread of its own: other requests are answered while the groups are measured.
        body = await run_in_threadpool(encoder, context.registry)
        return Response(body, headers={"content-type": content_type})

    return router
