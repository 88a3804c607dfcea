"""Transcripts of grants that do not begin, and of partitions that no record gives to a member."""

from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import MemberAssignment, Nack
from levelwind_testing.control.play import TIMERS, Play, begun
from levelwind_testing.records import member, topic

PATIENCE_SECONDS = 2 * 300.0 + TIMERS.commit


def led(*members, starting=()):
    play = begun(topic(), starting=set(starting))
    play.join(*members)
    play.wait(5)
    return play


def newest(play, instance):
    return [r for r in play.log if isinstance(r, MemberAssignment) and r.instance == instance][-1]


# Grants.


def test_a_hand_over_is_complete_when_every_grant_was_started():
    play = led(member("m0"), member("m1"), starting=[("m1", "i1")])
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}
    assert play.logged("handover.settled") == []
    play.update("m1", "i1", starting={})
    play.wait(1)
    (settled,) = play.logged("handover.settled")
    assert settled["seconds"] >= 3


def fail(play, key, *partitions):
    """Let a member announce that it could not start partitions."""
    record = play.members[key]
    owned = ranges.by_topic(ranges.pairs(record.owned) - {("t", number) for number in partitions})
    nack = Nack(epoch=record.acked_epoch, code="start-failed")
    play.update(*key, owned=owned, starting={}, nack=nack)


def test_a_grant_that_fails_is_taken_back_and_goes_to_another_member():
    play = led(member("m0"), member("m1"), starting=[("m1", "i1")])
    play.starting.clear()
    fail(play, ("m1", "i1"), 1, 3)
    (taken_back,) = play.logged("grant.taken_back")
    assert (taken_back["instance"], taken_back["partitions"]) == ("m1", {"t": "1,3"})
    play.wait(3)
    assert play.owned() == {"m0": "0-3", "m1": ""}
    play.wait(50)
    assert play.owned() == {"m0": "0-3", "m1": ""}
    play.wait(15)
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}, "the bar has ended"


def test_the_pause_of_a_member_that_fails_again_doubles():
    play = led(member("m0"), member("m1"), starting=[("m1", "i1")])
    fail(play, ("m1", "i1"), 1, 3)
    play.wait(70)
    assert play.owned()["m1"] == "1,3"
    fail(play, ("m1", "i1"), 1, 3)
    play.wait(110)
    assert play.owned()["m1"] == ""
    play.wait(20)
    assert play.owned()["m1"] == "1,3"


def test_a_grant_that_fails_goes_to_the_same_member_if_nobody_else_reads_its_topic():
    play = led(member("m0"), member("m1", topics=("u",)), starting=[("m0", "i1")])
    play.starting.clear()
    fail(play, ("m0", "i1"), 2, 3)
    play.wait(3)
    assert play.owned() == {"m0": "0-3", "m1": ""}
    assert play.members["m0", "i1"].acked_epoch > 1
    assert play.logged("grant.taken_back")


def test_a_grant_that_never_begins_is_taken_back_after_the_members_patience():
    play = led(member("m0"), member("m1"), starting=[("m1", "i1")])
    play.wait(PATIENCE_SECONDS - 10)
    assert play.logged("grant.taken_back") == []
    play.wait(15)
    assert [e["instance"] for e in play.logged("grant.taken_back")] == ["m1"]
    assert play.owned() == {"m0": "0-3", "m1": ""}


def test_a_member_that_fails_everywhere_does_not_leave_a_partition_without_an_owner():
    play = led(member("m0"), member("m1"), starting=[("m0", "i1"), ("m1", "i1")])
    play.starting.clear()
    fail(play, ("m0", "i1"), 0, 2)
    play.wait(3)
    play.starting.clear()
    play.update("m1", "i1", starting={"t": (0, 2)})
    fail(play, ("m1", "i1"), 0, 1, 2, 3)
    play.wait(10)
    owned = sorted(p for r in play.members.values() for p in ranges.pairs(r.owned))
    assert owned == [("t", number) for number in range(4)]


# Claims.


def test_what_a_known_member_claims_is_not_granted_to_another_before_it_gives_it_up():
    play = led(member("m0"))
    play.unresponsive.add(("m0", "i1"))
    claim = {"t": (0, 1, 2, 3), "u": (0,)}
    play.update("m0", "i1", owned=claim)
    assert play.logged("member.claimed")[0]["partitions"] == {"u": "0"}
    assert ranges.texts(newest(play, "m0").revoking) == {"u": "0"}
    play.receive("metadata", topic(name="u", racks=((),)))
    play.join(member("m1", topics=("u",)))
    for _ in range(20):
        play.update("m0", "i1")
        play.wait(3)
    assert newest(play, "m1").assigned == {}
    assert len(play.logged("member.claimed")) == 1
    given_up = newest(play, "m0")
    play.update("m0", "i1", acked_epoch=given_up.member_epoch, owned=given_up.assigned)
    play.wait(2)
    assert ranges.texts(newest(play, "m1").assigned) == {"u": "0"}


def test_what_a_member_claims_is_waited_out_if_it_dies():
    play = led(member("m0"))
    play.unresponsive.add(("m0", "i1"))
    play.update("m0", "i1", owned={"t": (0, 1, 2, 3), "u": (0,)})
    play.receive("metadata", topic(name="u", racks=((),)))
    play.kill("m0", "i1")
    play.join(member("m1", topics=("t", "u")), member("m2"))
    while not play.logged("member.evicted"):
        play.wait(0.5)
    play.wait(TIMERS.grant - 1)
    assert play.members["m1", "i1"].owned == {}
    play.wait(3)
    assert play.members["m1", "i1"].owned["u"] == (0,)


def test_what_two_lives_claim_is_free_only_when_both_have_ended():
    play = led(member("m0"))
    play.unresponsive |= {("x", "i1"), ("y", "i1")}
    play.join(replace(member("x", state="active", acked=3, owned={"u": (0,)})))
    play.join(replace(member("y", state="active", acked=3, owned={"u": (0,)})))
    play.receive("metadata", topic(name="u", racks=((),)))
    play.join(member("m1", topics=("u",)))
    for _ in range(round(TIMERS.grant / 3) + 4):
        play.update("y", "i1")
        play.wait(3)
    assert newest(play, "m1").assigned == {}, "y goes on"
    play.kill("y", "i1")
    play.wait(TIMERS.grant + 2)
    assert ranges.texts(newest(play, "m1").assigned) == {"u": "0"}


def test_what_a_refused_member_uses_is_granted_to_nobody_else():
    play = Play()
    play.start(topic())
    play.join(member("m0", hold_ms=3_000_000))
    play.wait(2)
    play.update("m0", "i1", state="active", owned={"t": (0,)})
    play.join(member("m1"))
    play.wait(9)
    assert play.owned() == {"m0": "0", "m1": "1-3"}
    record = newest(play, "m0")
    assert (record.state, record.revoking) == ("refused", {"t": (0,)})
    play.update("m0", "i1", owned={}, acked_epoch=record.member_epoch)
    play.wait(9)
    assert play.owned() == {"m0": "", "m1": "0-3"}
