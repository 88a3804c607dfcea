"""Routes of operators: levers, dry runs and orders, and the audit trail.

An order goes the way of the command line's: `levelwind.daemon.levers.acting.act`. One is worked on
at a time, since a dry run computes a whole plan beside the planner.

A call whose thread the system refuses fails, and is not made later: `run_in_threadpool` asks for
the thread first, where `asyncio.to_thread` queues the call first.
"""

import asyncio
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Body, Depends, HTTPException, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from levelwind.assignors.protocol.records import LeverRecord, Outcome
from levelwind.daemon.api.access.operator_access import REFUSALS, operator_access
from levelwind.daemon.api.api_context import ApiContext
from levelwind.daemon.api.order_models import (
    DecisionDocument,
    DecisionList,
    LeverList,
    MoveList,
    OrderRequest,
    OutcomeDocument,
    ReplayDocument,
    SettingList,
)
from levelwind.daemon.api.views.decision_log import MOST_DECISIONS, DecisionLog
from levelwind.daemon.api.views.encoded_documents import json_answer
from levelwind.daemon.api.wire_models import ErrorDocument
from levelwind.daemon.config.shown import flattened, masked_setting
from levelwind.daemon.decisions.reading import find_decision
from levelwind.daemon.decisions.replay import replay
from levelwind.daemon.levers.acting import act
from levelwind.daemon.levers.differences import moves_between
from levelwind.daemon.levers.orders import Operator, OperatorOrder, parse_target
from levelwind.daemon.levers.preview import levers_in_force, override
from levelwind.daemon.shown_groups.group_documents import json_safe

Latest = Annotated[int, Query(ge=1, le=MOST_DECISIONS)]
Before = Annotated[int | None, Query(ge=0, description="Milliseconds since the epoch.")]
BeforeId = Annotated[
    str | None, Query(max_length=1_000, description="Id of a decision at `before`.")
]
PlanName = Annotated[str | None, Query(max_length=1_000)]
MOST_SEARCHES = 4
"""Decisions that are searched for at a time: the probes share their threads."""
UNAVAILABLE: dict[int | str, dict[str, Any]] = {
    number: {"model": ErrorDocument, "description": REFUSALS[number]["description"]}
    for number in (404, 503)
}


class DecisionSource(Protocol):
    """Where the decisions come from."""

    async def ready(self) -> DecisionLog:
        """Return the decisions, once they have been read."""


def lever_routes(context: ApiContext) -> APIRouter:
    """Return the routes of levers."""
    router = APIRouter(prefix="/api/v1", tags=["levers"])
    access = operator_access(context)
    one_at_a_time = asyncio.Lock()

    def in_force() -> list[LeverRecord]:
        context.view.refresh()
        return levers_in_force(("control", record) for record in context.view.controls)

    @router.get("/levers", response_model=LeverList)
    async def levers() -> Any:
        """List the levers in force, which override the file."""
        return JSONResponse({"levers": [lever.as_json() for lever in in_force()]})

    @router.post("/levers", response_model=OutcomeDocument, responses=REFUSALS)
    async def order(
        operator: Annotated[Operator, Depends(access)], wanted: Annotated[OrderRequest, Body()]
    ) -> Any:
        """Say what an order would change; with `execute` give it, audited under the token's name.

        The daemon that leads follows it, whichever daemon took it.
        """
        checked = OperatorOrder(
            action=wanted.action,
            group=wanted.group,
            subject=wanted.subject,
            value=wanted.value,
            target=None if wanted.target is None else parse_target(wanted.target),
        )
        async with one_at_a_time:
            outcome = await run_in_threadpool(
                act,
                context.settings(),
                checked,
                operator,
                reason=wanted.reason,
                execute=wanted.execute,
                records=context.view.records(),
            )
        return await json_answer(lambda: json_safe(outcome.as_json()))

    @router.get("/settings", response_model=SettingList, responses=REFUSALS)
    async def settings(_: Annotated[Operator, Depends(access)]) -> Any:
        """Return the settings in force, secrets masked, and what levers override."""
        current = context.settings()
        rows = [
            {"path": path, "value": masked_setting(path, value)}
            for path, value in flattened(current)
        ]
        overridden = [override(current, lever) for lever in in_force()]
        return JSONResponse(json_safe({"settings": rows, "overrides": overridden}))

    @router.get("/diff/{group:name}", response_model=MoveList, responses=REFUSALS)
    async def diff(
        group: str,
        _: Annotated[Operator, Depends(access)],
        before: Annotated[PlanName, Query(alias="from")] = None,
        after: Annotated[PlanName, Query(alias="to")] = None,
    ) -> Any:
        """List the moves from one plan to another: what is owned, and one made now, by default."""
        async with one_at_a_time:
            moves = await run_in_threadpool(moves_between, context.settings(), group, before, after)
        return await json_answer(lambda: {"moves": moves})

    return router


def decision_routes(context: ApiContext, source: DecisionSource) -> APIRouter:
    """Return the routes of the audit trail."""
    router = APIRouter(prefix="/api/v1", tags=["decisions"])
    access = operator_access(context)
    one_at_a_time = asyncio.Lock()
    searches = asyncio.Semaphore(MOST_SEARCHES)

    @router.get("/decisions", response_model=DecisionList, responses=UNAVAILABLE)
    async def decisions(
        group: PlanName = None,
        limit: Latest = 100,
        before: Before = None,
        before_id: BeforeId = None,
        outcome: Outcome | None = None,
    ) -> Any:
        """List the newest decisions and orders, the newest first.

        `before` and `before_id` with `at` and `id` of the last one give the next page, also where
        several decisions bear one time.
        """
        if before_id is not None and before is None:
            raise HTTPException(422, "before_id: give the time of that decision as `before`, too")
        found = await source.ready()
        page = found.page(group, limit, before, before_id=before_id, outcome=outcome)
        return await json_answer(lambda: {"decisions": page})

    @router.get("/decisions/{name}", response_model=DecisionDocument, responses=UNAVAILABLE)
    async def decision(name: str, group: PlanName = None, inputs: bool = False) -> Any:
        """Return one decision, with `inputs` also what its plan was computed from."""
        async with searches:
            entry = await run_in_threadpool(find_decision, context.settings(), name, group)
        return await json_answer(lambda: json_safe(entry.as_json(inputs=inputs)))

    @router.post("/decisions/{name}/replay", response_model=ReplayDocument, responses=REFUSALS)
    async def replayed(
        name: str, _: Annotated[Operator, Depends(access)], group: PlanName = None
    ) -> Any:
        """Compute a past plan again from its recorded inputs, and compare the two."""
        async with one_at_a_time:
            entry = await run_in_threadpool(find_decision, context.settings(), name, group)
            result = await run_in_threadpool(replay, entry)
        return await json_answer(lambda: json_safe(result.as_json()))

    return router
