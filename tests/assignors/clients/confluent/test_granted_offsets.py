"""Which messages and offsets belong to the present grant of a partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.clients.confluent.committing.granted_offsets import GrantedOffsets
from levelwind.clients.confluent import NotOwnedError

ORDERS = ("orders", 0)


@pytest.fixture
def granted():
    granted = GrantedOffsets()
    granted.start(ORDERS, 20)
    for offset in (20, 21, 22):
        granted.hand_out(ORDERS, offset)
    return granted


def test_what_was_handed_out_may_be_committed_in_any_order(granted):
    for offset in (22, 20, 21):
        granted.require_handed_out(ORDERS, offset)


@pytest.mark.parametrize(("offset", "reason"), [(19, "begins at offset 20"), (23, "was away")])
def test_a_message_of_an_earlier_grant_is_refused(granted, offset, reason):
    with pytest.raises(NotOwnedError, match=reason):
        granted.require_handed_out(ORDERS, offset)


def test_an_offset_may_lie_anywhere_but_before_the_grant(granted):
    granted.require_not_below_start(ORDERS, 20)
    granted.require_not_below_start(ORDERS, 1000)
    with pytest.raises(NotOwnedError, match="`seek`"):
        granted.require_not_below_start(ORDERS, 5)


def test_without_a_commit_the_first_record_shows_where_the_grant_begins():
    granted = GrantedOffsets()
    granted.start(ORDERS, -1001)
    granted.require_not_below_start(ORDERS, 0)
    granted.hand_out(ORDERS, 7)
    granted.require_handed_out(ORDERS, 7)
    with pytest.raises(NotOwnedError):
        granted.require_handed_out(ORDERS, 6)


@pytest.mark.parametrize(("target", "allowed"), [(5, 5), (-2, 0), (40, 20)])
def test_an_application_that_seeks_may_commit_from_there(granted, target, allowed):
    granted.seek(ORDERS, target)
    granted.require_not_below_start(ORDERS, allowed)
    granted.require_handed_out(ORDERS, 22)


def test_another_grant_begins_anew(granted):
    granted.forget(ORDERS)
    granted.start(ORDERS, 21)
    with pytest.raises(NotOwnedError, match="was away"):
        granted.require_handed_out(ORDERS, 22)


def test_a_position_is_that_of_the_present_grant(granted):
    assert granted.position(ORDERS) == 23
    granted.seek(ORDERS, 21)
    assert granted.position(ORDERS) is None
    granted.hand_out(ORDERS, 21)
    assert granted.position(ORDERS) == 22
    granted.forget(ORDERS)
    assert granted.position(ORDERS) is None


@given(
    committed=st.integers(-1, 30),
    runs=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), min_size=1, max_size=4),
)
def test_everything_that_a_grant_hands_out_is_its_own_wherever_the_log_was_reset_to(
    committed, runs
):
    granted = GrantedOffsets()
    granted.start(ORDERS, committed)
    offsets = [offset for start, length in runs for offset in range(start, start + length)]
    for offset in offsets:
        granted.hand_out(ORDERS, offset)
    for offset in offsets:
        assert granted.handed_out(ORDERS, offset)
        granted.require_handed_out(ORDERS, offset)
    lowest = min(offsets if committed < 0 else [committed, *offsets])
    granted.require_not_below_start(ORDERS, lowest)
    with pytest.raises(NotOwnedError):
        granted.require_not_below_start(ORDERS, lowest - 1)
