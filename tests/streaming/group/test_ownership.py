"""Members of a group, from the records of its coordinator."""

from levelwind.assignors.protocol.kafka.carried_plan import rack_ids
from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.streaming.group.ownership import owners_of, with_coordinator_record
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.messages.rows import Raw
from levelwind_testing.pipeline.coordinator_commands import (
    classic_member,
    classic_value,
    consumer_key,
    metadata_value,
)
from levelwind_testing.pipeline.offsets_reference_codec import compact, group_key, uvarint


def applied(state: GroupState, key: bytes, value: bytes | None) -> GroupState:
    raw = Raw(
        topic="__consumer_offsets", partition=0, offset=0, timestamp=1000, key=key, value=value
    )
    return with_coordinator_record(state, raw)


def group_of(*members: bytes) -> GroupState:
    return applied(GroupState(), group_key("g"), classic_value(members))


OWNS = ConsumerAssignment(partitions={"t": (0, 1)}).encode()
NOTHING = ConsumerAssignment(partitions={}).encode()
READS = ConsumerSubscription(topics=("t",)).encode()
READS_NOTHING = ConsumerSubscription(topics=()).encode(0)


def subscriptions(state: GroupState) -> dict[str, frozenset[str] | None]:
    return {owner.name: owner.topics for owner in owners_of(state)}


def test_a_member_that_reads_no_topic_as_the_leader_proxy_is_no_capacity() -> None:
    state = group_of(
        classic_member("busy", READS, OWNS),
        classic_member("spare", READS, NOTHING),
        classic_member("proxy", READS_NOTHING, NOTHING),
        classic_member("proxied by librdkafka", READS_NOTHING, b""),
    )
    assert subscriptions(state) == {"busy": frozenset("t"), "spare": frozenset("t")}


def test_a_member_counts_that_owns_something_or_cannot_be_read() -> None:
    state = group_of(
        classic_member("odd", READS_NOTHING, OWNS), classic_member("foreign", b"\0\1", NOTHING)
    )
    assert subscriptions(state) == {"odd": frozenset(), "foreign": None}


def test_an_expression_is_a_subscription_once_the_coordinator_has_resolved_it() -> None:
    member, regex = consumer_key(5, "g", "m"), consumer_key(16, "g", "v.*")
    state = applied(GroupState(), member, metadata_value(None, topics=("t",), regex="v.*"))
    assert subscriptions(state) == {"m": None}
    resolved = b"\0\0" + uvarint(3) + compact(b"v1") + compact(b"v2") + bytes(16) + b"\0"
    state = applied(state, regex, resolved)
    assert subscriptions(state) == {"m": frozenset({"t", "v1", "v2"})}
    assert state.member_topics == {"t", "v1", "v2"}
    state = applied(state, member, metadata_value(None, topics=("t",)))
    assert subscriptions(state) == {"m": frozenset("t")}
    assert subscriptions(applied(state, regex, None)) == {"m": frozenset("t")}


def test_the_subscription_of_a_member_without_metadata_is_not_known() -> None:
    owned = b"\0\0" + bytes(9) + uvarint(1) + uvarint(1) + b"\0"
    state = applied(GroupState(), consumer_key(8, "g", "m"), owned)
    assert subscriptions(state) == {"m": None}


def test_a_carrier_of_plans_is_no_capacity_and_its_plan_is_not_kept() -> None:
    (plan,) = rack_ids((1, 1), {"m": {"t": (0,)}}, {"t": "A" * 22})
    reads, carries = consumer_key(5, "g", "m"), consumer_key(5, "g", "levelwind.proxy.0")
    state = applied(GroupState(), reads, metadata_value(None, topics=("t",)))
    state = applied(state, carries, metadata_value(plan, topics=("plan.1.1",)))
    owned = b"\0\0" + bytes(9) + uvarint(1) + uvarint(1) + b"\0"
    state = applied(state, consumer_key(8, "g", "levelwind.proxy.0"), owned)
    assert subscriptions(state) == {"m": frozenset("t")}
    assert state.member_topics == {"t"}
    assert plan not in repr(state)
    state = applied(state, carries, None)
    assert subscriptions(state) == {"levelwind.proxy.0": None, "m": frozenset("t")}
    state = applied(state, consumer_key(8, "g", "levelwind.proxy.0"), None)
    assert subscriptions(state) == {"m": frozenset("t")}
