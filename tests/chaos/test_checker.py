"""The offline checker of chaos runs: it finds planted faults, and passes what is allowed."""

import random
from dataclasses import replace

import pytest

from levelwind_testing.chaos.checker import CommitRecord, GroupHistory, ProcessRecord, check
from levelwind_testing.chaos.journal import Entry, Partition

WORK = Partition("work", 0)


def entry(at, event, offset=-1, *, life="one", epoch=(1, 1), valid_at=0.0):
    return Entry(
        at=at,
        event=event,
        incarnation=life,
        epoch=epoch,
        topic=WORK.topic,
        number=WORK.number,
        offset=offset,
        valid_at=valid_at,
    )


def handled(*offsets, start, life="one", epoch=(1, 1), each=1.0):
    """A handler for each offset, one after the other."""
    return [
        entry(start + each * (index + half), event, offset, life=life, epoch=epoch)
        for index, offset in enumerate(offsets)
        for half, event in ((0, "begin"), (0.9, "end"))
    ]


def process(name, *entries, ended=1000.0, pauses=()):
    flat = [e for part in entries for e in (part if isinstance(part, list) else [part])]
    return ProcessRecord(name=name, entries=flat, ended=ended, pauses=pauses)


def history(*processes, commits=(), end=4, committed=None, fenced=False):
    return GroupHistory(
        name="g",
        processes=processes,
        commits={WORK: [CommitRecord(*commit) for commit in commits]},
        committed={WORK: end if committed is None else committed},
        ends={WORK: end},
        fenced=fenced,
    )


A = process("a.0", handled(0, 1, start=10, life="one"))
B = process("b.0", handled(2, 3, start=20, life="two", epoch=(1, 2)))


def test_a_hand_over_in_order_has_no_violation():
    findings = check(history(A, B, commits=[(12, 2), (22, 4)]))
    assert findings.violations == []
    assert findings.counts["duplicates"] == 0
    assert findings.counts["commits that went back"] == 0
    assert findings.counts["commits"] == 2


def test_handlers_of_two_lives_that_overlap_are_two_owners():
    late = process("b.0", handled(2, 3, start=11.5, life="two", epoch=(1, 2)))
    (violation,) = check(history(A, late)).violations
    assert violation == (
        "two owners of g work[0]: a.0/one (2 handlers from 10.000 to 11.900)"
        " and b.0/two (2 handlers from 11.500 to 13.400)"
    )


def test_an_owner_that_goes_on_between_the_handlers_of_the_next_one_is_found():
    woken = process("a.0", handled(0, 1, start=5), handled(2, start=21.92, each=0.05))
    late = process("b.0", handled(2, start=20, life="two"), handled(3, start=22, life="two"))
    assert check(history(woken, late)).counts["overlaps"] == 1
    over = process("b.0", handled(2, start=20, life="two"), handled(3, start=30, life="two"))
    assert check(history(woken, over)).counts["overlaps"] == 1


def test_a_partition_that_comes_back_is_used_under_another_grant():
    first = process(
        "a.0",
        entry(1, "gained"),
        handled(0, start=5),
        entry(7, "released"),
        entry(30, "gained"),
        handled(3, start=31, epoch=(1, 3)),
    )
    between = process("b.0", handled(1, 2, start=20, life="two", epoch=(1, 2)))
    assert check(history(first, between)).violations == []
    kept = replace(first, entries=[e for e in first.entries if e.event in {"begin", "end"}])
    assert check(history(kept, between)).counts["overlaps"] == 1


def test_each_of_several_overlaps_is_found():
    slow = process("a.0", entry(10, "begin", 0), entry(30, "end", 0))
    third = process("c.0", handled(1, start=25, life="three", epoch=(1, 3)))
    assert check(history(slow, B, third)).counts["overlaps"] == 2


def test_a_killed_process_holds_until_its_end_was_seen():
    begun = entry(11, "begin", 2)
    rest = handled(2, 3, start=20, life="two", epoch=(1, 2))
    head = handled(0, 1, start=5)
    early, late = (process("a.0", head, begun, ended=ended) for ended in (19.9, 20.1))
    assert check(history(early, process("b.0", rest))).violations == []
    assert len(check(history(late, process("b.0", rest))).violations) == 1


def test_a_handler_that_a_stop_interrupted_and_that_gave_up_counts_until_the_stop():
    head = handled(0, 1, start=5)
    given_up = [entry(11, "begin", 2), entry(40, "abandoned", 2, valid_at=11.5)]
    after = process("b.0", handled(2, 3, start=20, life="two", epoch=(1, 2)))
    stopped = process("a.0", head, given_up, pauses=[(12, 39.9)])
    assert check(history(stopped, after)).violations == []
    for pauses in ((), [(2, 3)], [(25, 39.9)]):
        awake = process("a.0", head, given_up, pauses=pauses)
        assert len(check(history(awake, after)).violations) >= 1


def test_a_handler_that_goes_on_after_a_stop_counts_to_its_end():
    went_on = process(
        "a.0", handled(0, 1, start=5), entry(11, "begin", 2), entry(40, "end", 2), pauses=[(12, 39)]
    )
    after = process("b.0", handled(2, 3, start=20, life="two", epoch=(1, 2)))
    assert check(history(went_on, after)).counts["overlaps"] == 1


def test_a_process_that_was_killed_while_it_stood_held_nothing_from_the_stop_on():
    stood = process(
        "a.0", handled(0, 1, start=5), entry(11, "begin", 2), ended=50.0, pauses=[(12, 50.0)]
    )
    after = process("b.0", handled(2, 3, start=20, life="two", epoch=(1, 2)))
    assert check(history(stood, after)).violations == []


def test_one_life_may_handle_what_it_likes_and_another_life_of_the_same_process_may_not():
    twice = process("a.0", entry(1, "begin", 0), entry(9, "end", 0), handled(1, start=9))
    assert check(history(twice, end=2)).violations == []


def test_a_partition_that_is_gained_before_it_is_released_has_two_owners():
    first = process("a.0", entry(1, "gained"), handled(0, 1, start=2), entry(9, "released"))
    second = process(
        "b.0",
        entry(8, "gained", life="two"),
        handled(2, 3, start=10, life="two", epoch=(1, 2)),
        entry(15, "released", life="two"),
    )
    (violation,) = check(history(first, second)).violations
    assert "b.0/two gained it at 8.000 while a.0/one had it" in violation
    lost = replace(first, entries=[*first.entries[:-1], entry(9, "lost")])
    assert check(history(lost, second)).violations == []


def test_a_token_that_goes_back_is_found():
    older = process("b.0", handled(2, 3, start=20, life="two", epoch=(1, 0)))
    (violation,) = check(history(A, older)).violations
    assert violation.startswith("a fencing token of g work[0] went back: (1, 1)")


def test_a_record_without_the_end_of_a_handler_is_lost():
    gap = process("b.0", handled(3, start=20, life="two", epoch=(1, 2)))
    (violation,) = check(history(A, gap)).violations
    assert violation == "1 records of g work[0] were lost: offsets [2] of 4"


def test_a_partition_that_nobody_handled_is_lost():
    assert check(history(end=2, committed=0)).violations == [
        "2 records of g work[0] were lost: offsets [0, 1] of 2",
        "g work[0] is committed at 0 in the end, not at 2",
    ]


@pytest.mark.parametrize("committed", [3, 5])
def test_the_last_commit_is_the_end_of_the_log(committed):
    assert len(check(history(A, B, committed=committed)).violations) == 1


@pytest.mark.parametrize(
    ("commit", "allowed"),
    [((10.95, 1), True), ((10.8, 1), False), ((21, 4), False), ((22, 4), True), ((500, 5), False)],
)
def test_a_commit_never_goes_beyond_what_was_handled_when_it_arrived(commit, allowed):
    violations = check(history(A, B, commits=[commit])).violations
    assert violations == [] if allowed else "had been processed" in violations[0]


def test_a_commit_over_a_gap_is_found_though_everything_is_handled_in_the_end():
    other = process("b.0", handled(3, 2, start=20, life="two", epoch=(1, 2)))
    assert check(history(A, other, commits=[(22, 4)])).violations == []
    (violation,) = check(history(A, other, commits=[(21, 4)])).violations
    assert "only the records below 2 had been processed" in violation


def test_commits_that_go_back_are_counted_and_violate_only_where_brokers_fence():
    commits = [(12, 2), (22, 4), (23, 2), (24, 3), (25, 4)]
    plain = check(history(A, B, commits=commits))
    assert plain.violations == []
    assert plain.counts["commits that went back"] == 2
    assert len(check(history(A, B, commits=commits, fenced=True)).violations) == 2


def test_duplicates_are_counted():
    again = process("b.0", handled(1, 2, 3, start=20, life="two", epoch=(1, 2)))
    findings = check(history(A, again))
    assert findings.violations == []
    assert findings.counts["duplicates"] == 1


def test_records_that_were_handed_out_after_the_lease_are_found():
    late = [entry(30 + n, "declined", 3, life="two") for n in range(2)]
    assert check(history(A, replace(B, entries=[*B.entries, late[0]]))).violations == []
    (violation,) = check(history(A, replace(B, entries=[*B.entries, *late]))).violations
    assert violation == "g: 2 records were handed out after the end of the lease"


def test_a_random_history_without_faults_passes_and_each_planted_overlap_is_found():
    rng = random.Random(11)
    for _ in range(200):
        lives, at, offset = [], 0.0, 0
        for number in range(rng.randint(2, 6)):
            offsets = range(offset, offset + rng.randint(1, 9))
            part = handled(
                *offsets,
                start=at,
                life=f"life-{number}",
                epoch=(1, number),
                each=rng.random() + 0.1,
            )
            lives.append(process(f"p.{number}", part))
            at, offset = part[-1].at + rng.random(), offsets.stop
        commits = [(at, offset)]
        assert check(history(*lives, commits=commits, end=offset)).violations == []
        victim = rng.randrange(len(lives) - 1)
        last = lives[victim].entries[-1]
        longer = replace(last, at=lives[victim + 1].entries[0].at + 0.001)
        lives[victim] = replace(lives[victim], entries=[*lives[victim].entries[:-1], longer])
        assert check(history(*lives, commits=commits, end=offset)).counts["overlaps"] >= 1
