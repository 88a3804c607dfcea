"""Partitions that are new to a group are read from their beginning, by its plans' records."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import MemberAssignment
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.play import begun
from levelwind_testing.records import member, topic


def watched(*members, **options):
    """A group whose first plan covers topic `t` with its two partitions, if it reads that."""
    play = begun(topic(racks=((),) * 2), strategy="uniform", **options)
    play.join(*(members or (member("m0"), member("m1"))))
    play.wait(6)
    return play


def new_from(play):
    """What the newest record of each member says, by instance."""
    newest = {r.instance: r.new_from for r in play.log if isinstance(r, MemberAssignment)}
    return {instance: of for instance, of in newest.items() if of}


def layout(play, count, **fields):
    play.receive("metadata", topic(racks=((),) * count, at=round(play.now * 1000), **fields))
    play.wait(6)


def test_the_first_plan_has_nothing_new():
    assert new_from(watched()) == {}


def test_a_topic_that_has_grown_is_new_from_its_former_end_on():
    play = watched()
    layout(play, 4)
    assert new_from(play) == {"m0": {"t": 2}, "m1": {"t": 2}}
    layout(play, 5)
    assert new_from(play) == {"m0": {"t": 2}, "m1": {"t": 2}}, "nobody may have committed the rest"


def test_who_has_no_new_partition_is_told_nothing():
    play = watched()
    layout(play, 3)
    assert len(new_from(play)) == 1


def test_the_next_owner_is_told_too_also_by_the_next_daemon():
    play = watched()
    layout(play, 4)
    play.leave("m1", "i1")
    play.wait(6)
    assert new_from(play)["m0"] == {"t": 2}
    play.restart()
    epochs = len(play.log)
    play.wait(6)
    assert not any(isinstance(r, MemberAssignment) for r in play.log[epochs:])
    play.join(member("m2"))
    play.wait(6)
    assert new_from(play)["m2"] == {"t": 2}


def test_a_topic_that_is_made_again_is_new_as_a_whole():
    play = watched()
    layout(play, 2, topic_id="B" * 22)
    play.leave("m1", "i1")
    play.wait(6)
    assert new_from(play)["m0"] == {"t": 0}


def test_who_reads_on_in_a_topic_that_is_made_again_gets_no_other_record():
    """Also not by the next daemon, for which nothing has changed."""
    play = watched()
    layout(play, 2, topic_id="B" * 22)
    play.restart()
    records = len(play.log)
    play.wait(6)
    assert not any(isinstance(record, MemberAssignment) for record in play.log[records:])


@pytest.mark.parametrize("by", [{"topics": ("t", "u")}, {"pattern": "[tu]"}])
def test_a_topic_that_members_waited_for_is_new_as_a_whole(by):
    play = watched(member("m0", **by))
    layout(play, 2, name="u")
    assert new_from(play) == {"m0": {"u": 0}}


def test_a_topic_that_was_there_before_somebody_subscribed_to_it_is_not_new():
    play = watched(member("m0"))
    layout(play, 2, name="u")
    play.join(replace(play.members["m0", "i1"], topics=("t", "u")))
    play.wait(6)
    assert new_from(play) == {}


def test_a_topic_that_was_there_when_the_daemon_did_not_know_its_layout_is_not_new():
    play = watched(member("m0", topics=("t", "u")))
    play.receive("metadata", topic("u", racks=((),) * 2, at=1))
    play.wait(6)
    assert set(play.members["m0", "i1"].owned) == {"t", "u"}
    assert new_from(play) == {}


def test_a_setting_leaves_it_to_the_members():
    play = watched(planning=PlanSettings(strategy="uniform", begins_new=False))
    layout(play, 4)
    assert new_from(play) == {}
