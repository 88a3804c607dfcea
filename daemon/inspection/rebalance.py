"""`levelwind rebalance`: an operator's request for a new plan, audited as any other order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.levers.acting import records_of, write_order
from levelwind.daemon.levers.orders import Operator, OperatorOrder
from levelwind.daemon.shown_groups.group_view import find_group, read_views
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from levelwind.daemon.config.settings import Settings


def request_rebalance(settings: Settings, group: str, reason: str) -> None:
    """Request a new plan for a group.

    Raises:
        NotFoundError: levelwind does not plan for such a group, so no plan would follow; or the
            cluster has no audit trail yet.
        ClusterUnavailableError: the cluster does not answer, or did not acknowledge the request
            in time.
    """
    # Reading first also proves that the topics exist: a producer might let the cluster create them
    # with its default settings.
    views = read_views(settings)
    view = find_group(views, group)
    if not (view.plan or view.members):
        raise NotFoundError(
            f"group {group!r} is watched, but none of its consumers follows plans: nothing to plan"
        )
    order = OperatorOrder(action="rebalance", group=group)
    operator, at = Operator.of_command_line(), now_ms()
    request = records_of(settings, order, operator, at, reason)
    write_order(settings, order, operator, at, reason, request)
