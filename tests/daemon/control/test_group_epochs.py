"""Group epochs: each step of a group has an epoch of its own, also over restarts."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import GroupRecord, MemberAssignment, Tombstone
from levelwind_testing.control.play import TIMERS, Play, begun
from levelwind_testing.records import member, request, topic


@pytest.fixture
def play():
    return begun(topic())


def epochs(*plays):
    """The planner epoch and the group epoch of each transaction that has one.

    The record of a plan that is published again keeps the epochs of its plan.
    """
    found, plans = [], set()
    for play in plays:
        for step in play.steps:
            records = [r for r in step if isinstance(r, GroupRecord | MemberAssignment)]
            pairs = {
                (record.planner_epoch, record.group_epoch)
                for record in records
                if getattr(record, "plan_id", None) not in plans
            }
            assert len(pairs) <= 1
            found += pairs
            plans |= {record.plan_id for record in records if isinstance(record, GroupRecord)}
    return found


def group_epochs(*plays):
    return [group_epoch for _, group_epoch in epochs(*plays)]


def rises(numbers):
    return all(low < high for low, high in pairwise(numbers))


def restarted(play):
    after = Play(now=play.now + 60, members=dict(play.members))
    after.start(*play.kept(), topic(), *play.members.values())
    return after


def test_a_step_after_a_plan_without_moves_has_an_epoch_of_its_own(play):
    play.join(member("m0"), member("m1"))
    play.wait(3)
    play.receive("control", request())
    play.unresponsive.add(("m1", "i1"))
    play.join(member("m1", incarnation="i2"))
    assert [plan["cause"] for plan in play.plans] == ["membership", "operator"]
    assert rises(group_epochs(play)), group_epochs(play)


def test_a_group_that_was_forgotten_goes_on_with_its_epochs(play):
    claims = {("unknown", "i1"), ("unknown", "i2")}
    play.unresponsive |= claims
    for instance, incarnation in sorted(claims):
        play.join(
            member(instance, incarnation=incarnation, state="active", acked=0, owned={"t": (0,)})
        )
        play.wait(TIMERS.grant + 2)
        del play.members[instance, incarnation]
        assert "g" not in play.state.groups
    assert len(epochs(play)) == 2
    assert rises(epochs(play)), epochs(play)


def test_epochs_whose_records_were_all_deleted_are_not_used_again_after_a_restart(play):
    play.join(member("m0"), member("m1"))
    play.wait(3)
    for life in range(2, 5):  # each life is granted its partitions anew, then deleted
        gone = play.members.pop(("m1", f"i{life - 1}"))
        play.receive("members", replace(gone, state="left", owned={}))
        play.join(member("m1", incarnation=f"i{life}"))
        play.wait(3)
    gone = play.members.pop(("m1", "i4"))
    play.receive("members", replace(gone, state="left", owned={}))
    assert [type(record) for record in play.steps[-1]].count(Tombstone) == 2
    after = restarted(play)
    after.wait(3)
    assert after.plans
    assert rises(group_epochs(play, after)), group_epochs(play, after)
