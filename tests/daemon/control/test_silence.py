"""Transcripts of silent and slow members: only time in which the daemon could read counts."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import MemberAssignment
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic

MAX_POLL_SECONDS = 300.0
PATIENCE_SECONDS = 2 * MAX_POLL_SECONDS + TIMERS.commit


def led(*members, **options):
    play = begun(topic(), **options)
    play.join(*members)
    play.wait(5)
    return play


def evicted(play):
    return [fields["instance"] for fields in play.logged("member.evicted")]


def test_an_eviction_is_not_late_by_the_length_of_an_outage():
    play = led(member("m0"), member("m1"), member("m2"))
    play.now += 1815  # the daemon could not publish for so long
    for key in list(play.members):
        play.update(*key)
    play.kill("m2", "i1")
    play.wait(TIMERS.dead_after + 5)
    assert evicted(play) == ["m2"]


def test_a_member_that_died_in_an_outage_is_evicted_soon_after_it():
    play = led(member("m0"), member("m1"), member("m2"))
    play.interrupted = True
    play.kill("m2", "i1")
    play.wait(1815)
    play.interrupted = False
    play.wait(TIMERS.dead_after + 5)
    assert evicted(play) == ["m2"]


@pytest.mark.parametrize("factor", [0.15, 0.1])
def test_heartbeats_below_half_a_second_evict_as_well(factor):
    play = begun(topic(), timers=TIMERS.scaled(factor))
    play.join(member("m0"), member("m1"), member("m2"))
    for _ in range(60):
        for key in list(play.members):
            play.update(*key)
        play.wait(0.1, beat=False, step=0.1)
    play.kill("m2", "i1")
    for _ in range(round(10 * factor * TIMERS.dead_after * 2)):
        for key in list(play.members):
            play.update(*key)
        play.wait(0.5, beat=False)
    assert evicted(play) == ["m2"]


def test_a_daemon_that_reads_nothing_evicts_nobody():
    play = led(member("m0"))
    play.unresponsive.add(("m0", "i1"))  # has partitions to give up
    play.join(member("m1"))
    play.wait(3, beat=False)
    play.interrupted = True
    play.wait(3600, beat=False)
    assert evicted(play) == []


def test_a_handler_may_take_as_long_as_max_poll_interval_allows():
    play = led(member("m0"))
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    for _ in range(round(PATIENCE_SECONDS / 3) - 1):
        play.update("m0", "i1")
        play.wait(3)
    assert evicted(play) == []
    for _ in range(3):
        play.update("m0", "i1")
        play.wait(3)
    assert evicted(play) == ["m0"]
    assert "612 s" in play.logged("member.evicted")[0]["reason"]


def test_an_acknowledgement_that_makes_progress_begins_the_patience_again():
    play = led(member("m0"))
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    play.wait(2)
    first = [r for r in play.log if isinstance(r, MemberAssignment) and r.instance == "m0"][-1]
    for beat in range(round(1.5 * PATIENCE_SECONDS / 3)):
        if beat == 150:  # one of the two is given up, the handler of the other goes on
            play.update("m0", "i1", acked_epoch=first.member_epoch, owned={"t": (0, 1, 2)})
        play.update("m0", "i1")
        play.wait(3)
    assert evicted(play) == []


def test_a_short_max_poll_interval_leaves_the_timeout_of_the_settings():
    play = led(replace(member("m0"), max_poll_interval_ms=1_000))
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    for _ in range(round(TIMERS.revoke_timeout / 3) + 2):
        play.update("m0", "i1")
        play.wait(3)
    assert evicted(play) == ["m0"]
