"""Members that read by a pattern: the control matches it as topics come and go."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import GroupRecord, MemberAssignment, Tombstone
from levelwind.daemon.control.membership.subscribed_patterns import SubscribedPatterns
from levelwind_testing.control.play import Play, begun
from levelwind_testing.records import member, topic

PATTERN = r"^orders\."
TWO = ((), ())


def reader(instance, pattern=PATTERN, topics=(), **more):
    return member(instance, topics=topics, pattern=pattern, **more)


def shares(play):
    return {
        instance: ranges.texts(record.owned)
        for (instance, _), record in sorted(play.members.items())
    }


@pytest.fixture
def play():
    """A group of two members that read `orders.*`, of which one topic exists."""
    play = begun(topic("orders.placed", TWO))
    play.receive("metadata", topic("payments", TWO))
    play.join(reader("m0"), reader("m1"))
    play.wait(3)
    return play


def test_a_pattern_is_planned_like_the_topics_that_it_matches(play):
    assert shares(play) == {"m0": {"orders.placed": "0"}, "m1": {"orders.placed": "1"}}
    [plan] = play.plans
    record = next(r for r in play.log if isinstance(r, GroupRecord))
    assert record.topics.keys() == {"orders.placed"}
    assert {planned.topics for planned in record.members} == {("orders.placed",)}
    play.wait(30)
    assert play.plans == [plan], "heartbeats change nothing"


def test_a_topic_that_comes_is_read_and_one_that_goes_is_not(play):
    play.receive("metadata", topic("orders.paid", TWO))
    play.wait(3)
    assert [plan["cause"] for plan in play.plans] == ["membership", "topics"]
    assert all(share.keys() == {"orders.placed", "orders.paid"} for share in shares(play).values())
    play.receive("metadata", topic("payments.late", TWO))
    play.wait(9)
    assert len(play.plans) == 2, "it does not match"
    play.receive("metadata", Tombstone(("topic", "orders.placed")))
    play.wait(9)
    assert [plan["cause"] for plan in play.plans[2:]] == ["topics"]
    assert all(share.keys() == {"orders.paid"} for share in shares(play).values())


def test_a_pattern_that_matches_nothing_yet_waits_for_its_first_topic():
    play = Play()
    play.start()
    play.join(reader("m0"))
    play.wait(9)
    assert shares(play) == {"m0": {}}
    play.receive("metadata", topic("orders.placed", TWO))
    play.wait(3)
    assert shares(play) == {"m0": {"orders.placed": "0-1"}}


def test_a_member_may_name_topics_beside_its_pattern(play):
    play.join(reader("m2", topics=("payments",)))
    play.wait(6)
    assert shares(play)["m2"]["payments"] == "0-1"
    assert "orders.placed" in {name for share in shares(play).values() for name in share}


def test_a_restart_of_the_daemon_keeps_what_a_pattern_matched(play):
    before, plans = shares(play), len(play.plans)
    play.restart()
    play.wait(9)
    assert (shares(play), len(play.plans)) == (before, plans)


def test_a_topic_that_came_while_the_daemon_was_away_is_read(play):
    play.stop()
    play.receive("metadata", topic("orders.paid", TWO))
    play.restart()
    play.wait(9)
    assert all(share.keys() == {"orders.placed", "orders.paid"} for share in shares(play).values())


@pytest.mark.parametrize("pattern", ["^(a", "(a|b)*a(a|b){12}$", "^(.*)*x{200}y{200}z{200}"])
def test_a_pattern_that_cannot_be_used_is_refused_and_holds_nobody_up(play, pattern):
    play.join(reader("m2", pattern))
    play.wait(6)
    [refused] = play.logged("member.refused")
    assert refused["instance"] == "m2"
    assert "pattern" in refused["reason"]
    assignment = next(
        r for r in reversed(play.log) if isinstance(r, MemberAssignment) and r.instance == "m2"
    )
    assert (assignment.state, assignment.assigned) == ("refused", {})
    served = {"m0": {"orders.placed": "0"}, "m1": {"orders.placed": "1"}}
    assert {name: share for name, share in shares(play).items() if share} == served
    play.restart()
    play.wait(6)
    assert [fields["instance"] for fields in play.logged("member.refused")] == ["m2", "m2"]
    assert {incarnation.instance for incarnation in play.state.groups["g"].live} == {"m0", "m1"}
    assert len(play.plans) == 1


def test_internal_topics_and_levelwinds_own_are_read_only_by_name():
    play = Play()
    play.start()
    play.state = replace(play.state, patterns=SubscribedPatterns(frozenset({"levelwind.lag"})))
    for name in ("__consumer_offsets", "levelwind.lag", "work"):
        play.receive("metadata", topic(name, TWO))
    play.join(reader("m0", "^.*"))
    play.wait(3)
    assert shares(play)["m0"].keys() == {"work"}
    play.join(reader("m1", "^.*", topics=("__consumer_offsets", "levelwind.lag")))
    play.wait(9)
    assert shares(play)["m1"].keys() >= {"__consumer_offsets", "levelwind.lag"}


def test_a_topic_that_comes_takes_no_excluded_topic_from_a_member_that_names_it():
    play = Play()
    play.start()
    play.state = replace(play.state, patterns=SubscribedPatterns(frozenset({"levelwind.lag"})))
    for name in ("levelwind.lag", "work"):
        play.receive("metadata", topic(name, TWO))
    play.join(reader("m0", "^.*", topics=("levelwind.lag",)))
    play.wait(9)
    before = len(play.log)
    play.receive("metadata", topic("later", TWO))
    play.wait(9)
    assert shares(play)["m0"].keys() == {"levelwind.lag", "later", "work"}
    given = [r.assigned.keys() for r in play.log[before:] if isinstance(r, MemberAssignment)]
    assert given
    assert all("levelwind.lag" in topics for topics in given)


def test_a_pattern_of_nobody_is_forgotten(play):
    for instance in ("m0", "m1"):
        play.leave(instance, "i1")
    play.wait(3)
    plans = len(play.plans)
    play.receive("metadata", topic("orders.paid", TWO))
    play.wait(9)
    assert len(play.plans) == plans
    assert play.state.groups.readers("orders.later") == []
    assert not play.state.groups._pattern_readers
