"""Transcripts of starts: the daemon goes on with the whole target of the last one."""

import pytest

from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic

STEP = 0.05
DOWN_SECONDS = 2.0
"""Seconds from the end of the daemon to the start of the next one."""
RESTART_SECONDS = 0.5
"""Seconds from the end of a consumer to the announcement of its next life."""
BOUND_SECONDS = TIMERS.dead_after + TIMERS.grant + 5


def led(*names, partitions=4):
    play = begun(topic(racks=((),) * partitions))
    play.join(*(member(name) for name in names))
    play.wait(2)
    return play


@pytest.mark.parametrize("departure", ["left", "killed"])
@pytest.mark.parametrize(
    "every",
    [pytest.param(10, id="500 ms"), pytest.param(1, marks=pytest.mark.slow, id="50 ms")],
)
def test_a_consumer_and_the_daemon_restart_at_any_time_of_each_other(departure, every):
    lost = []
    for offset in range(-60, 80, every):
        play = led("m0", "m1")
        play.wait(4)
        begin = play.now
        daemon_ends, daemon_starts = begin + 4.0, begin + 4.0 + DOWN_SECONDS
        ends = daemon_ends + offset * STEP
        for _ in range(round(12 / STEP)):
            play.wait(STEP, step=STEP)
            if abs(play.now - daemon_ends) < STEP / 2:
                play.stop()
            if abs(play.now - daemon_starts) < STEP / 2:
                play.restart()
            if abs(play.now - ends) < STEP / 2:
                end = play.leave if departure == "left" else play.kill
                end("m1", "i1")
            if abs(play.now - ends - RESTART_SECONDS) < STEP / 2:
                play.join(member("m1", incarnation="i2"))
        play.wait(BOUND_SECONDS)
        if play.owned_pairs() != [("t", number) for number in range(4)]:
            lost.append((round(offset * STEP, 2), play.owned()))
    assert not lost


def test_the_share_of_an_evicted_member_waits_for_its_instance_over_a_start():
    play = led("m0", "m1", "m2", partitions=6)
    play.kill("m2", "i1")
    play.wait(TIMERS.dead_after + 2)
    while not play.logged("member.evicted"):
        play.wait(0.5)
    play.restart()
    play.join(member("m2", incarnation="i2"))
    play.wait(BOUND_SECONDS)
    assert play.owned() == {"m0": "0,3", "m1": "1,4", "m2": "2,5"}


def test_what_an_evicted_life_held_is_no_share_beside_the_record_of_the_next_life():
    play = led("m0", partitions=2)
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    play.wait(2)
    assert play.plans[-1]["moves"] == {"t": "1"}
    play.kill("m0", "i1")
    play.join(member("m0", incarnation="i2"))
    # Within `settle`, so that the daemon ends before it plans without the member.
    play.leave("m1", "i1")
    play.stop()
    play.join(member("m1", incarnation="i2"))
    play.restart()
    play.wait(BOUND_SECONDS)
    assert sorted(play.owned().values()) == ["0", "1"]


def test_a_member_that_no_longer_reads_its_topic_gets_another_plan_at_the_start():
    play = led("m0", "m1")
    play.stop()
    play.join(member("m1", topics=("u",), state="active", acked=9, owned={"t": (1, 3)}))
    play.restart()
    play.wait(10)
    assert play.owned() == {"m0": "0-3", "m1": ""}
