"""What the brokers answered, as the pipeline reads it from the records that are made of it."""

import pytest

from levelwind.daemon.polling.polled_records import consumer_records
from levelwind.daemon.wire.poll_requests import PolledConsumer
from levelwind.streaming.group.ownership import owners_of, with_coordinator_record
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.messages.rows import Raw


@pytest.mark.parametrize(("pattern", "reads"), [(None, frozenset({"t"})), ("^t", None)])
def test_the_subscription_of_a_member_is_known_unless_it_has_a_pattern(pattern, reads):
    """No answer says which topics a pattern matches: the member may read any."""
    member = PolledConsumer("m", None, "a", 4, "client", "/host", ("t",), pattern, {})
    state = GroupState()
    for key, value in consumer_records("g", member).items():
        raw = Raw(
            topic="__consumer_offsets", partition=0, offset=0, timestamp=1, key=key, value=value
        )
        state = with_coordinator_record(state, raw)
    (owner,) = owners_of(state)
    assert (owner.name, owner.rack, owner.topics) == ("m", "a", reads)
