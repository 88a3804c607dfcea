"""What the brokers answered, as the pipeline reads it from the records that are made of it."""

import pytest

from levelwind.assignors.protocol.kafka.types import compact_array, compact_string
from levelwind.daemon.polling.polled_records import consumer_records
from levelwind.daemon.wire.describe_requests import DescribedMember
from levelwind.streaming.group.ownership import owners_of, with_coordinator_record
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.messages.rows import Raw


@pytest.mark.parametrize(("pattern", "reads"), [(None, frozenset({"t"})), ("^t", None)])
def test_the_subscription_of_a_member_is_known_unless_it_has_a_pattern(pattern, reads):
    """No answer says which topics a pattern matches: the member may read any."""
    member = DescribedMember("m", None, "client", "/host", "a", ("t",), pattern=pattern, epoch=4)
    state = GroupState()
    for key, value in consumer_records("g", member).items():
        raw = Raw(
            topic="__consumer_offsets", partition=0, offset=0, timestamp=1, key=key, value=value
        )
        state = with_coordinator_record(state, raw)
    (owner,) = owners_of(state)
    assert (owner.name, owner.rack, owner.topics) == ("m", "a", reads)


@pytest.mark.parametrize(
    ("named", "pattern", "reads"),
    [(("b", "a"), None, ["a", "b"]), ((), "^o", ["owned"]), (("a",), "^o", ["a", "owned"])],
)
def test_a_member_reads_what_it_names_and_what_its_pattern_gave_it(named, pattern, reads):
    """The record of what the member says of itself; the names are in it one after the other."""
    member = DescribedMember("m", None, "c", topics=named, pattern=pattern, epoch=4)
    member = member._replace(assigned={bytes(16): (1,)}, assigned_topics=("owned",))
    itself, _ = consumer_records("g", member).values()
    assert compact_array([*map(compact_string, reads)]) in itself
