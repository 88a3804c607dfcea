"""What changes in the cluster ask of the groups: brokers, and layouts of topics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.protocol.records import BrokerRecord, TopicRecord
from levelwind.daemon.control.schedule.deciding import enter
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Tombstone
    from levelwind.daemon.control.context import Clock
    from levelwind.daemon.control.state.control_state import ControlState


def cluster_changed(
    state: ControlState, record: BrokerRecord | TopicRecord | Tombstone, clock: Clock
) -> ControlState:
    """Take in a broker, a topic's layout, or the end of a topic.

    The layouts are changed in place: a step that changes any begins with a copy of them.
    """
    if isinstance(record, BrokerRecord):
        return replace(state, brokers={**state.brokers, record.broker: record})
    if isinstance(record, TopicRecord):
        return _topic_changed(state, record.topic, record, clock)
    return _topic_changed(state, str(record.key[1]), None, clock)


def _topic_changed(
    state: ControlState, name: str, record: TopicRecord | None, clock: Clock
) -> ControlState:
    """Take in a topic's layout; only another id or number of partitions is a cause to plan."""
    before = state.topics.pop(name, None)
    if record is not None:
        state.topics[name] = record
    if (name in state.deleted_topics) is (record is not None):
        deleted = state.deleted_topics - {name} if record else state.deleted_topics | {name}
        state = replace(state, deleted_topics=deleted)
    if record and before and (record.id, record.partitions) == (before.id, before.partitions):
        return state
    if (record is None) is not (before is None):
        state.patterns.topic_changed(name, exists=record is not None)
    context = state.context(clock)
    for reader in state.groups.readers(name):
        group = state.patterns.rematched(reader, state.topics)
        enter(state, group.changed(Cause.TOPICS, clock.now), context)
    return state
