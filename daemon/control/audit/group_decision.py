"""A decision about one group: what a step of the control makes of it. Pure."""

from __future__ import annotations

from msgspec import Struct

from levelwind.assignors.protocol.records import Record, Tombstone
from levelwind.daemon.control.audit.decision_draft import DecisionDraft
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.managed_group import ManagedGroup


class Decision(Struct, frozen=True, kw_only=True):
    """A group after a decision, the records of one transaction, and their log events."""

    group: ManagedGroup
    records: tuple[Record | Tombstone, ...] = ()
    events: tuple[LogEvent, ...] = ()
    drafts: tuple[DecisionDraft, ...] = ()
    """What the audit trail is to keep."""
    computed: bool = False
    """Whether a plan was computed, be it published or not."""
    awaits_plan: bool = False
    """Whether a plan is due that was not to be computed now."""

    def then(self, later: Decision) -> Decision:
        """Append a later decision about the group that this decision left.

        Of two records of one key the later stays.
        """
        records = {record.key: record for record in (*self.records, *later.records)}
        return Decision(
            group=later.group,
            records=tuple(records.values()),
            events=(*self.events, *later.events),
            drafts=(*self.drafts, *later.drafts),
            computed=self.computed or later.computed,
            awaits_plan=self.awaits_plan or later.awaits_plan,
        )
