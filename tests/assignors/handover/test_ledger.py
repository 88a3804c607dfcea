"""Transcripts of the planner's ledger."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from levelwind.assignors.handover.ledger import Incarnation, Ledger
from levelwind.assignors.handover.ledger_recovery import recover_ledger
from levelwind.assignors.handover.patience import overdue
from levelwind.assignors.handover.planner_time import PlannerTime
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment, Tombstone
from levelwind_testing.records import member

TIMERS = Timers()
NOW = PlannerTime(0.0, 0.0, 0.0)
A, B, A2 = Incarnation("a", "1"), Incarnation("b", "1"), Incarnation("a", "2")
P0, P1, P2 = ("t", 0), ("t", 1), ("t", 2)


def share(*partitions):
    return frozenset(partitions)


def announcement(incarnation, acked, *owned, state="active"):
    """A member's announcement."""
    return member(
        incarnation.instance,
        incarnation=incarnation.incarnation,
        state=state,
        acked=acked,
        owned={"t": tuple(sorted(number for _, number in owned))} if owned else {},
        heartbeat=1,
    )


def publish(ledger, epoch, now=0.0, **options):
    ledger, changes = ledger.next_records(epoch=epoch, planner_epoch=1, readable=now, **options)
    return ledger, {
        change.key[2:]
        if isinstance(change, Tombstone)
        else (change.instance, change.incarnation): change
        for change in changes
    }


def parts(record):
    return [dict(part) for part in (record.assigned, record.pending, record.revoking)]


@pytest.fixture
def empty():
    return Ledger.empty(group="g", timers=TIMERS)


@pytest.fixture
def owned_by_a(empty):
    ledger, _ = publish(empty.set_target({A: share(P0, P1)}), 1)
    return ledger.acknowledge(announcement(A, 1, P0, P1), NOW)


@pytest.fixture
def moving(owned_by_a):
    """P1 is on its way from A to B since epoch 2."""
    ledger, _ = publish(owned_by_a.set_target({A: share(P0), B: share(P1)}), 2)
    return ledger


def test_what_is_free_is_granted_at_once(empty):
    ledger, changes = publish(empty.set_target({A: share(P0), B: share()}), 1)
    assert parts(changes[A]) == [{"t": (0,)}, {}, {}]
    assert parts(changes[B]) == [{}, {}, {}], (
        "a member without partitions learns that it has been seen"
    )
    assert not ledger.settled, "nobody has started it yet"
    assert ledger.acknowledge(announcement(A, 1, P0), NOW).settled


def test_a_partition_that_moves_is_revoked_then_granted(owned_by_a):
    ledger, changes = publish(owned_by_a.set_target({A: share(P0), B: share(P1)}), 2)
    assert parts(changes[A]) == [{"t": (0,)}, {}, {"t": (1,)}]
    assert parts(changes[B]) == [{}, {"t": (1,)}, {}]
    assert not ledger.settled
    ledger, changes = publish(ledger.acknowledge(announcement(A, 2, P0), NOW), 3)
    assert parts(changes[A]) == [{"t": (0,)}, {}, {}]
    assert parts(changes[B]) == [{"t": (1,)}, {}, {}]
    assert ledger.owners() == {P0: A, P1: B}
    assert ledger.acknowledge(announcement(B, 3, P1), NOW).settled


def test_an_announcement_from_before_the_revocation_frees_nothing(moving):
    assert moving.acknowledge(announcement(A, 1, P0), NOW) is moving


def test_an_acknowledgement_that_still_owns_the_partition_frees_nothing(moving):
    assert moving.acknowledge(announcement(A, 2, P0, P1), NOW).owners() == moving.owners()


def test_another_incarnations_acknowledgement_frees_nothing(moving):
    assert moving.acknowledge(announcement(A2, 2), NOW) is moving
    assert moving.acknowledge(replace(announcement(A, 2, P0), group="h"), NOW) is moving


def test_an_acknowledgement_of_an_epoch_that_never_was_frees_nothing(moving):
    assert moving.acknowledge(announcement(A, 3, P0), NOW) is moving


def test_an_acknowledgement_of_an_older_grant_does_not_free_a_newer_one(moving):
    ledger, _ = publish(moving.acknowledge(announcement(A, 2, P0), NOW), 3)
    ledger, _ = publish(
        ledger.acknowledge(announcement(B, 3, P1), NOW).set_target({A: share(P0, P1), B: share()}),
        4,
    )
    ledger, _ = publish(ledger.acknowledge(announcement(B, 4), NOW), 5)
    ledger, _ = publish(
        ledger.acknowledge(announcement(A, 5, P0, P1), NOW).set_target(
            {A: share(P0), B: share(P1)}
        ),
        6,
    )
    late = announcement(A, 2, P0)
    assert ledger.acknowledge(late, NOW) is ledger, "it is from the first move"


def test_a_target_that_is_reverted_waits_for_the_revocation_all_the_same(moving):
    ledger, changes = publish(moving.set_target({A: share(P0, P1)}), 3)
    assert parts(changes[A]) == [{"t": (0,)}, {"t": (1,)}, {"t": (1,)}]
    ledger, changes = publish(ledger.acknowledge(announcement(A, 3, P0), NOW), 4)
    assert parts(changes[A]) == [{"t": (0, 1)}, {}, {}]


def test_nothing_changes_while_nothing_happens(moving):
    after, changes = publish(moving, 3)
    assert after is moving
    assert changes == {}


def test_an_epoch_is_never_used_twice(moving):
    with pytest.raises(ValueError, match="epoch 2 is not above 2"):
        publish(moving, 2)


def test_a_target_that_gives_a_partition_to_two_is_refused(empty):
    with pytest.raises(ValueError, match=r"\('t', 1\) to two members"):
        empty.set_target({A: share(P0, P1), B: share(P1)})


@pytest.mark.parametrize("departure", ["announced", "tombstone"])
def test_a_leaving_member_frees_everything_at_once(owned_by_a, departure):
    ledger = (
        owned_by_a.acknowledge(announcement(A, 1, state="left"), NOW)
        if departure == "announced"
        else owned_by_a.leave(A)
    )
    ledger, changes = publish(ledger.set_target({B: share(P0, P1)}), 2)
    assert changes[A] == Tombstone(("m", "g", "a", "1"))
    assert parts(changes[B]) == [{"t": (0, 1)}, {}, {}]
    assert A not in ledger.holdings


def test_a_departure_that_still_owns_partitions_frees_nothing(owned_by_a):
    ledger = owned_by_a.acknowledge(announcement(A, 1, P0, state="left"), NOW)
    assert ledger.owners() == owned_by_a.owners()


def test_an_eviction_frees_only_once_it_was_read_back_and_waited_out(owned_by_a):
    ledger, changes = publish(
        owned_by_a.evict(A, NOW).set_target({A2: share(P0, P1)}), 2, now=100.0
    )
    assert changes[A].state == "evicted"
    assert parts(changes[A]) == [{}, {}, {"t": (0, 1)}]
    assert parts(changes[A2]) == [{}, {"t": (0, 1)}, {}]
    assert ledger.tick(1e9, 1e9) is ledger, "not read back: no timer runs"
    ledger = ledger.eviction_read_back(A, 105.0)
    assert ledger.tick(140.9, 1e9) is ledger
    assert ledger.eviction_read_back(A, 200.0) is ledger, "the first reading counts"
    ledger, changes = publish(ledger.tick(141.0, 1e9), 3)
    assert changes[A] == Tombstone(("m", "g", "a", "1"))
    assert parts(changes[A2]) == [{"t": (0, 1)}, {}, {}]


def test_an_eviction_that_is_not_published_cannot_have_been_read_back(owned_by_a):
    ledger = owned_by_a.evict(A, NOW)
    assert ledger.eviction_read_back(A, 0.0) is ledger
    assert owned_by_a.eviction_read_back(A, 0.0) is owned_by_a


def test_an_evicted_member_that_leaves_frees_everything(owned_by_a):
    ledger, _ = publish(owned_by_a.evict(A, NOW).set_target({B: share(P0, P1)}), 2)
    ledger, changes = publish(ledger.acknowledge(announcement(A, 1, state="left"), NOW), 3)
    assert parts(changes[B]) == [{"t": (0, 1)}, {}, {}]


def test_an_evicted_member_gets_nothing_whatever_the_target(owned_by_a):
    ledger = owned_by_a.evict(A, NOW)
    assert ledger.set_target({A: share(P0)}).target == {}
    assert ledger.target == {}


def test_an_eviction_of_an_unknown_member_takes_back_its_records(empty):
    assert empty.leave(A) == empty
    ledger, changes = publish(empty.evict(A, NOW), 1)
    assert changes == {A: Tombstone(("m", "g", "a", "1"))}
    assert ledger.epoch == 0, "a record that is taken back has no epoch"
    assert list(ledger.ended) == [A]


def test_what_is_revoked_for_too_long_is_overdue(moving):
    assert overdue(moving, 611.9) == {}
    assert overdue(moving, 612.0) == {A: 612.0}, "2 x max.poll.interval + commit"
    assert overdue(moving.evict(A, NOW), 612.0) == {}
    assert overdue(moving.acknowledge(announcement(A, 2, P0), NOW), 612.0) == {}


def test_the_records_carry_rack_and_capacity(empty):
    record = replace(announcement(A, 0), rack="r", capacity=2.0)
    ledger, changes = publish(empty.join(record).set_target({A: share(P0)}), 1, reason="joined")
    assert (changes[A].rack, changes[A].capacity, changes[A].reason) == ("r", 2.0, "joined")
    _, changes = publish(ledger, 2, reason="another reason is no change")
    assert changes == {}
    moved = ledger.acknowledge(replace(record, acked_epoch=1, rack="s"), NOW)
    _, changes = publish(moved, 2)
    assert changes[A].rack == "s"


def recovered(ledger, *, members=(), group_epoch=0, now=0.0):
    """The ledger of a planner that starts, once it has taken in what members announce."""
    time = PlannerTime(now, now, now)
    ledger = recover_ledger(
        group="g",
        timers=TIMERS,
        group_epoch=group_epoch,
        assignments=[holding.published for holding in ledger.holdings.values()],
        members=members,
        time=time,
    )
    for record in members:
        ledger = ledger.acknowledge(record, time)
    return ledger


def test_a_planner_that_starts_knows_what_is_not_free(moving):
    ledger = recovered(moving)
    assert ledger.owners() == moving.owners()
    assert ledger.target == moving.target
    assert ledger.epoch == 2
    assert publish(ledger, 3)[1] == {}, "and goes on as if nothing had happened"


def test_a_planner_that_starts_takes_in_what_was_announced_meanwhile(moving):
    _, changes = publish(recovered(moving, members=[announcement(A, 2, P0), announcement(B, 2)]), 3)
    assert parts(changes[B]) == [{"t": (1,)}, {}, {}]
    assert recovered(moving, members=[announcement(A, 1, P0)]).owners() == moving.owners()


def test_a_planner_that_starts_publishes_evictions_again_and_waits_again(owned_by_a):
    ledger, _ = publish(owned_by_a.evict(A, NOW).set_target({B: share(P0, P1)}), 2)
    ledger = recovered(ledger.eviction_read_back(A, 0.0))
    assert ledger.tick(1e9, 1e9) is ledger
    ledger, changes = publish(ledger, 3)
    assert changes[A].state == "evicted"
    ledger = ledger.eviction_read_back(A, 50.0)
    assert ledger.tick(85.9, 1e9).owners() == ledger.owners()
    assert ledger.tick(86.0, 1e9).owners() == {}


def test_epochs_continue_above_everything_published_or_acknowledged(moving):
    assert recovered(moving, group_epoch=9).epoch == 9
    assert recovered(moving, members=[announcement(A, 12, P0)]).epoch == 12
    assert (
        recover_ledger(
            group="g", timers=TIMERS, group_epoch=4, assignments=[], members=[], time=NOW
        ).epoch
        == 4
    )


def test_a_planner_that_starts_does_not_believe_the_answer_to_a_record_that_is_lost(moving):
    """The lost record may have granted the partition again, and A be about to start it."""
    ledger = recovered(moving, members=[announcement(A, 7, P0), announcement(B, 2)])
    assert ledger.owners()[P1] == A
    ledger, changes = publish(ledger, 8)
    assert parts(changes[A]) == [{"t": (0,)}, {}, {"t": (1,)}], "A is to answer again"
    assert B not in changes
    assert ledger.acknowledge(announcement(A, 7, P0), NOW).owners()[P1] == A
    ledger, changes = publish(ledger.acknowledge(announcement(A, 8, P0), NOW), 9)
    assert parts(changes[B]) == [{"t": (1,)}, {}, {}]


def test_no_acknowledgement_ends_what_an_evicted_life_claims_also_after_a_start(empty):
    """It follows a planner whose records are lost, and whose epochs were higher."""
    claimed, _ = publish(empty.claim(announcement(A, 400, P0), NOW), 1)
    ledger = recovered(claimed, members=[announcement(A, 400)], group_epoch=500)
    assert ledger.owners() == claimed.owners() == {P0: A}


def test_a_planner_that_starts_knows_the_lives_that_have_ended(empty):
    ledger = recover_ledger(
        group="g", timers=TIMERS, group_epoch=0, assignments=[], members=[], time=NOW, ended=[A, B]
    )
    assert list(ledger.ended) == [A, B]


def test_a_planner_that_starts_judges_a_refused_member_again(empty):
    slow = replace(announcement(A, 0), hold_ms=1_000_000)
    bad = replace(announcement(B, 0), pattern="^(a")
    refused, _ = publish(empty.join(slow).join(bad), 1)
    assert [holding.state for holding in refused.holdings.values()] == ["refused"] * 2
    records = [holding.published for holding in refused.holdings.values()]
    patient = dataclasses.replace(TIMERS, longest_grant=2_000.0)
    for timers, states in ((TIMERS, ["refused", "refused"]), (patient, ["active", "refused"])):
        ledger = recover_ledger(
            group="g",
            timers=timers,
            group_epoch=1,
            assignments=records,
            members=[slow, bad],
            time=NOW,
        )
        assert [holding.state for holding in ledger.holdings.values()] == states


def test_records_that_contradict_each_other_are_held_by_both(moving):
    first = moving.holdings[A].published
    second = replace(first, instance="c")
    ledger = recover_ledger(
        group="g", timers=TIMERS, group_epoch=0, assignments=[first, second], members=[], time=NOW
    )
    ledger, _ = publish(ledger.set_target({B: share(P0, P1)}), 3)
    ledger, changes = publish(ledger.acknowledge(announcement(A, 3), NOW), 4)
    assert B not in changes, "the other member still holds it"
    ledger, changes = publish(ledger.acknowledge(announcement(Incarnation("c", "1"), 4), NOW), 5)
    assert parts(changes[B]) == [{"t": (0, 1)}, {}, {}]


def test_ten_thousand_partitions_move_between_a_hundred_members(empty):
    members = [Incarnation(f"i{number}", "1") for number in range(100)]
    everything = [("t", number) for number in range(10_000)]
    ledger, _ = publish(
        empty.set_target(
            {incarnation: share(*everything[at::100]) for at, incarnation in enumerate(members)}
        ),
        1,
    )
    turned = {
        incarnation: share(*everything[(at + 1) % 100 :: 100])
        for at, incarnation in enumerate(members)
    }
    ledger, changes = publish(ledger.set_target(turned), 2)
    for change in changes.values():
        assert isinstance(change, MemberAssignment)
        ledger = ledger.acknowledge(
            announcement(Incarnation(change.instance, change.incarnation), 2), NOW
        )
    ledger, changes = publish(ledger, 3)
    for change in changes.values():
        owned = [(topic, n) for topic, numbers in change.assigned.items() for n in numbers]
        ledger = ledger.acknowledge(
            announcement(Incarnation(change.instance, change.incarnation), 3, *owned), NOW
        )
    assert ledger.settled
