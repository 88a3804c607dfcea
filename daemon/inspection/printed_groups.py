"""Documents of groups as `groups` and `describe` print them with `--format json`.

They are those of the API, with the rows of the tables beside. Four fields have the types that
release 0.1.0 of the commands gave them, which are others than those of the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.shown_groups.group_documents import (
    group_document,
    group_summary,
    json_safe,
    plan_document,
)
from levelwind.daemon.shown_groups.offset_rows import offset_rows
from levelwind.daemon.shown_groups.partition_rows import partition_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.shown_groups.shown_group import ShownGroup
    from levelwind.daemon.wire.describe_requests import DescribedMember


def printed_summary(shown: ShownGroup) -> dict[str, object]:
    """Return what `levelwind groups` prints of a group."""
    return {**group_summary(shown), "topics": sorted(shown.records.lags)}


def printed_group(
    shown: ShownGroup, described: Mapping[str, DescribedMember] | None = None
) -> dict[str, object]:
    """Return what `levelwind describe` prints.

    Args:
        shown: the group.
        described: its members as the brokers describe them, by instance or else by member id.
    """
    records = shown.records
    return {
        **group_document(shown),
        "topics": sorted(records.lags),
        "cross_rack": shown.measured.crossing._asdict(),
        "plan": json_safe({**records.plan.value(), **plan_document(records.plan)})
        if records.plan
        else None,
        "proxy": records.proxy.value() if records.proxy else None,
        "trigger": {kind: record.value() for kind, record in records.triggers.items()},
        "partition": partition_rows(shown),
        "offsets": [row._asdict() for row in offset_rows(shown, described)],
    }
