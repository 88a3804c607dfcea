"""Transcripts of evictions: when partitions of evicted members are free, and who stays out."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import MemberAssignment, Tombstone
from levelwind.daemon.control.boundary.control_events import CommitsFenced
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic

PATIENCE_SECONDS = 2 * 300.0 + TIMERS.commit


def led(*members):
    play = begun(topic())
    play.join(*members)
    play.wait(5)
    return play


def until_evicted(play, beat=True):
    while not play.logged("member.evicted"):
        play.wait(0.5, beat=beat)
    return play.now


def test_nothing_is_freed_while_the_daemon_cannot_read_whether_the_member_goes_on():
    play = led(member("m0"), member("m1"), member("m2"))
    play.kill("m2", "i1")
    until_evicted(play)
    play.interrupted = True
    play.wait(TIMERS.grant + 100)
    assert sum(map(len, (ranges.parse(o) for o in play.owned().values()))) < 4
    play.interrupted = False
    play.wait(TIMERS.grant + 1)
    assert sum(map(len, (ranges.parse(o) for o in play.owned().values()))) == 4


def test_a_member_that_writes_and_does_not_read_keeps_its_partitions_and_is_logged():
    play = led(member("m0"))
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))

    def goes_on(seconds):
        for _ in range(round(seconds / 3)):
            play.update("m0", "i1")
            play.wait(3)

    goes_on(PATIENCE_SECONDS + 6)
    assert play.logged("member.evicted")
    goes_on(PATIENCE_SECONDS + 300)
    assert play.owned()["m1"] == ""
    logged = play.logged("member.holds_on")
    assert logged[0]["partitions"] == {"t": "0-3"}
    assert 2 <= len(logged) <= 6, "throttled"
    play.kill("m0", "i1")
    play.wait(TIMERS.grant + 3)
    assert play.owned()["m1"] == "0-3"


@pytest.mark.parametrize(
    ("longer", "wait"), [({"hold_ms": 60_000}, 74.12), ({"commit_ms": 50_000}, 72.04)]
)
def test_an_eviction_waits_by_the_members_own_timers(longer, wait):
    play = led(member("m0"), member("m1"), replace(member("m2"), **longer))
    play.kill("m2", "i1")
    at = until_evicted(play)
    while sum(map(len, (ranges.parse(o) for o in play.owned().values()))) < 4:
        play.wait(0.5)
    assert wait <= play.now - at <= wait + 2


def test_a_member_that_asks_for_longer_waits_than_the_planner_gives_is_refused():
    play = led(member("m0"), replace(member("m1"), hold_ms=3_600_000))
    play.wait(60)
    assert play.owned() == {"m0": "0-3", "m1": ""}
    (record,) = [r for r in play.log if isinstance(r, MemberAssignment) and r.instance == "m1"]
    assert (record.state, record.assigned) == ("refused", {})
    assert "longest_grant" in record.reason
    assert [fields["instance"] for fields in play.logged("member.refused")] == ["m1"]
    play.restart()
    play.wait(10)
    assert play.owned() == {"m0": "0-3", "m1": ""}
    play.kill("m1", "i1")
    play.wait(TIMERS.dead_after + 5)
    assert play.published[-1] == ("members", Tombstone(record.key))


def test_a_refused_member_that_restarts_with_other_timers_is_admitted():
    play = led(member("m0"), replace(member("m1"), hold_ms=3_600_000))
    play.kill("m1", "i1")
    play.join(member("m1", incarnation="i2"))
    play.wait(5)
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


@pytest.mark.parametrize("owned", [{}, {"t": (1, 3)}])
def test_an_evicted_life_stays_evicted_also_after_its_tombstone(owned):
    play = led(member("m0"), member("m1"), member("m2"))
    play.kill("m2", "i1")
    play.wait(TIMERS.dead_after + TIMERS.grant + 10)
    key = ("m", "g", "m2", "i1")
    assert ("members", Tombstone(key)) in play.published
    before = len(play.published)
    late = member("m2", state="active", acked=1, owned=owned, heartbeat=7)
    play.receive("members", late)
    assert [r for _, r in play.published[before:]] == [Tombstone(key)] * 2
    play.wait(5)
    assert Incarnation("m2", "i1") not in play.state.groups["g"].live
    assert len(play.logged("member.joined")) == 3


def transactional(name, **fields):
    return replace(member(name, **fields), transactional_id=f"levelwind.g/{name}")


def test_the_commits_of_an_evicted_member_are_fenced_before_its_partitions_are_free():
    play = led(member("m0"), member("m1"), transactional("m2"))
    play.kill("m2", "i1")
    until_evicted(play)
    play.wait(200)
    (asked,) = play.fencing
    assert asked.transactional_id == "levelwind.g/m2"
    assert sum(map(len, (ranges.parse(o) for o in play.owned().values()))) < 4
    play._do(CommitsFenced(group="g", incarnation=asked.incarnation))
    play.wait(1)
    assert sum(map(len, (ranges.parse(o) for o in play.owned().values()))) == 4


@pytest.mark.parametrize("name", ["levelwind.planner", "levelwind.g/m0"])
def test_no_announcement_makes_the_planner_fence_anybody_else(name):
    play = led(member("m0"), member("m1"), replace(member("m2"), transactional_id=name))
    play.kill("m2", "i1")
    at = until_evicted(play)
    play.wait(TIMERS.grant + 3)
    assert play.fencing == []
    assert sum(map(len, (ranges.parse(o) for o in play.owned().values()))) == 4
    assert play.now - at > TIMERS.grant


def test_a_newer_life_of_the_instance_fences_the_older_one_itself():
    play = led(member("m0"), member("m1"), transactional("m2"))
    play.kill("m2", "i1")
    play.join(transactional("m2", incarnation="i2"))
    play.wait(TIMERS.grant + 5)
    assert play.fencing == []
    assert sum(map(len, (ranges.parse(o) for o in play.owned().values()))) == 4


def test_a_start_logs_what_it_evicts():
    play = led(member("m0"), member("m1"))
    play.stop()
    play.kill("m1", "i1")
    play.join(member("m1", incarnation="i2"))
    play.restart()
    (fields,) = play.logged("member.evicted")
    assert (fields["instance"], fields["incarnation"]) == ("m1", "i1")


def test_a_departure_without_a_record_is_taken_back():
    play = led(member("m0"))
    play.receive("members", member("m1", state="left"))
    assert ("members", Tombstone(("m", "g", "m1", "i1"))) in play.published
