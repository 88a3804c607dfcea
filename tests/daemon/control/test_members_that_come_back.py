"""Transcripts of members that are gone for longer than `dead_after` and come back, or do not."""

from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic


def led(*members, partitions=6, strategy="optimal"):
    play = begun(topic(racks=((),) * partitions), strategy=strategy, rejoining=True)
    play.join(*members)
    play.wait(5)
    assert len(play.plans) == 1
    return play


def stopped(play, name, seconds):
    """Stop a member's process for some seconds; then it finds its lease over, and joins anew."""
    (key,) = [key for key in play.members if key[0] == name]
    play.unresponsive.add(key)
    play.wait(seconds)
    play.unresponsive.discard(key)
    play._rejoin(*key)
    play.wait(5)


def read_by(play):
    """The partitions that members own, with repetition."""
    owned = [number for text in play.owned().values() for number in ranges.parse(text)]
    return sorted(owned)


def moves(play):
    return sum(fields["moved"] for fields in play.plans[1:])


def test_a_member_that_is_back_before_its_partitions_are_free_keeps_them():
    play = led(member("m0"), member("m1"), member("m2"))
    before = play.owned()
    stopped(play, "m2", 20)
    assert play.logged("member.evicted")
    assert play.owned() == before
    assert len(play.plans) == 1


def test_one_of_twelve_members_that_is_stopped_twice_moves_nothing():
    play = led(*(member(f"m{number:02}") for number in range(12)), partitions=60)
    before = play.owned()
    for _ in range(2):
        stopped(play, "m07", 20)
        assert play.owned() == before
    assert len(play.logged("member.evicted")) == 2
    assert len(play.plans) == 1


def test_a_member_whose_process_is_replaced_gets_the_same_partitions_when_they_are_free():
    play = led(member("m0"), member("m1"), member("m2"))
    before = play.owned()
    play.kill("m2", "i1")
    play.wait(20)
    play.join(member("m2", incarnation="i2"))
    play.wait(TIMERS.dead_after + TIMERS.grant)
    assert play.owned() == before
    assert len(play.plans) == 1


def test_partitions_of_a_member_that_stays_away_are_granted_as_soon_as_they_are_free():
    play = led(member("m0"), member("m1"), member("m2"))
    play.kill("m2", "i1")
    while not play.logged("member.evicted"):
        play.wait(0.5)
    play.wait(TIMERS.grant - 1)
    assert len(play.plans) == 1
    play.wait(1.5)
    assert len(play.plans) == 2
    assert read_by(play) == list(range(6))


def test_a_member_that_says_farewell_late_and_does_not_come_back_is_not_waited_for():
    play = led(member("m0"), member("m1"), member("m2"))
    play.unresponsive.add(("m2", "i1"))
    play.wait(20)
    play.leave("m2", "i1")
    play.wait(2)
    assert len(play.plans) == 2
    assert read_by(play) == list(range(6))


def test_a_member_that_joins_meanwhile_waits_for_nobody():
    play = led(member("m0"), member("m1"), member("m2"))
    play.kill("m2", "i1")
    play.wait(20)
    play.join(member("m3"))
    play.wait(3)
    assert len(play.plans) == 2
    play.wait(TIMERS.grant)
    assert read_by(play) == list(range(6))
    assert play.owned()["m3"]
    assert len(play.plans) == 2


def test_a_partition_that_was_on_its_way_to_the_missing_member_goes_to_another_one():
    play = led(member("m0"), member("m1"))
    play.unresponsive.add(("m2", "i1"))
    play.join(member("m2"))
    play.wait(3)  # m0 and m1 have given up what m2 is to have, and it does not hear of that
    play.members.pop(("m2", "i1"))
    play.wait(TIMERS.dead_after + TIMERS.grant + 5)
    assert read_by(play) == list(range(6))


def test_a_daemon_that_starts_meanwhile_keeps_the_partitions_for_the_member():
    play = led(member("m0"), member("m1"), member("m2"))
    before = play.owned()
    play.unresponsive.add(("m2", "i1"))
    play.wait(18)
    assert play.logged("member.evicted")
    play.restart()
    play.wait(5)
    play.unresponsive.clear()
    play._rejoin("m2", "i1")
    play.wait(5)
    assert play.owned() == before
    assert len(play.plans) == 1


@given(
    members=st.integers(2, 6),
    partitions=st.integers(1, 12),
    seconds=st.integers(1, 80),
    strategy=st.sampled_from(["optimal", "sticky", "lag", "range"]),
)
def test_however_long_a_member_is_stopped_nothing_stays_unread_and_a_short_stop_moves_nothing(
    members, partitions, seconds, strategy
):
    play = led(
        *(member(f"m{number}") for number in range(members)),
        partitions=partitions,
        strategy=strategy,
    )
    before = play.owned()
    stopped(play, "m0", seconds)
    play.wait(10)
    assert read_by(play) == list(range(partitions))
    if before["m0"] and seconds < TIMERS.dead_after + TIMERS.grant - 5:
        assert play.owned() == before
        assert moves(play) == 0
