"""Transcripts of one instance name with several lives: processes that alternate, or that die."""

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol.records import Tombstone
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic


def led(*members):
    play = begun(topic(), rejoining=True)
    play.join(*members)
    play.wait(5)
    return play


def alternating(play):
    """Start a second process with the name of the first; each joins again when it is evicted."""
    play.join(member("twin", incarnation="a"))
    play.wait(5)
    play.join(member("twin", incarnation="b"))
    play.wait(1)
    return play


def test_a_conflict_ends_also_where_the_group_has_no_other_member():
    play = alternating(led())
    assert [fields["instance"] for fields in play.logged("member.duplicate_instance")] == ["twin"]
    play.wait(60)
    assert not play.state.groups["g"].live, "both processes are kept out"
    assert len(play.members) == 2
    play.kill(*min(play.members))
    play.wait(TIMERS.dead_after + TIMERS.grant + 8)
    assert play.owned() == {"twin": "0-3"}


def test_two_processes_of_one_name_beside_another_member_are_kept_out_until_one_leaves():
    play = alternating(led(member("m0")))
    play.wait(60)
    assert {incarnation.instance for incarnation in play.state.groups["g"].live} == {"m0"}
    play.leave(*next(key for key in play.members if key[0] == "twin"))
    play.wait(TIMERS.dead_after + TIMERS.grant + 8)
    assert play.owned() == {"m0": "0,2", "twin": "1,3"}


def test_a_process_that_dies_again_and_again_is_no_conflict():
    play = led(member("m0"))
    for life in range(12):
        play.join(member("m1", incarnation=f"i{life}"))
        play.wait(4)
        play.kill("m1", f"i{life}")
        play.wait(1)
    assert play.logged("member.duplicate_instance") == []
    play.join(member("m1", incarnation="last"))
    play.wait(TIMERS.grant + 5)
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


def test_announcements_of_lives_that_ended_without_a_record_are_taken_back():
    play = alternating(led(member("m0")))
    for key in [key for key in play.members if key[0] == "twin"]:
        play.kill(*key)
    play.wait(TIMERS.dead_after + TIMERS.grant + 8)
    latest = {record.key: record for kind, record in play.written if kind == "members"}
    left = [key for key, record in latest.items() if not isinstance(record, Tombstone)]
    assert left == [("m", "g", "m0", "i1")]


def test_lives_that_died_while_no_daemon_ran_do_not_make_a_start_evict_the_live_one():
    play = led(member("m0"), member("m1"))
    play.stop()
    for life in range(4):
        play.join(member("m1", incarnation=f"dead{life}"))
        play.kill("m1", f"dead{life}")
    play.wait(6)
    for _ in range(2):
        play.restart()
        play.wait(5)
        assert Incarnation("m1", "i1") in play.state.groups["g"].live
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}
    evicted = [fields["incarnation"] for fields in play.logged("member.evicted")]
    assert evicted == [f"dead{life}" for life in range(4)], "once, by the first start"
