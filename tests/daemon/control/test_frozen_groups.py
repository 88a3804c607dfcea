"""Transcripts of frozen groups: they wait for those who froze them, and for nobody else."""

from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic

BOUND_SECONDS = TIMERS.dead_after + TIMERS.revoke_timeout + TIMERS.grant + 5


def frozen():
    play = begun(topic())
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(5)
    play.kill("m1", "i1")
    play.kill("m2", "i1")
    play.wait(TIMERS.dead_after + 3)
    assert play.state.groups["g"].frozen
    return play


def test_everything_is_owned_again_while_a_member_of_a_new_name_dies_every_20_s():
    play = frozen()
    owned = {}
    for number in range(30):
        play.join(member(f"new{number}"))
        play.wait(2)
        play.kill(f"new{number}", "i1")
        play.wait(18)
        owned[number] = len(play.owned_pairs())
    late = {number for number, count in owned.items() if 20 * number > BOUND_SECONDS and not count}
    assert not late
    assert len(play.logged("group.frozen")) == 1
    play.wait(TIMERS.dead_after + TIMERS.grant + 5)
    assert play.owned_pairs() == [("t", number) for number in range(4)]


def test_a_group_thaws_when_those_who_froze_it_come_back():
    play = begun(topic())
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(5)
    play.unresponsive |= {("m1", "i1"), ("m2", "i1")}
    play.wait(TIMERS.dead_after + 3)
    assert play.state.groups["g"].frozen
    play.unresponsive.clear()
    play.join(member("m3"))
    play.wait(10)
    assert not play.state.groups["g"].frozen
    assert play.logged("member.evicted") == []
    assert play.owned()["m3"]


def test_a_member_that_falls_silent_later_keeps_no_group_frozen_whose_others_come_back():
    play = begun(topic())
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(5)
    play.unresponsive |= {("m1", "i1"), ("m2", "i1")}
    play.wait(TIMERS.dead_after - TIMERS.heartbeat)
    play.kill("m0", "i1")
    play.wait(TIMERS.dead_after)
    assert play.state.groups["g"].frozen
    play.unresponsive.clear()
    play.wait(2 * TIMERS.heartbeat)
    assert not play.state.groups["g"].frozen
    assert [fields["instance"] for fields in play.logged("member.evicted")] == ["m0"]
