"""Whom a round is for."""

from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.polling.poll_schedule import (
    ABSENT_ROUNDS,
    BUSY_ROUNDS,
    MOST_GROUPS,
    MOST_PARTITIONS,
    QUIET_EVERY,
    PollSchedule,
    by_kind,
    requests_for,
)
from levelwind.daemon.wire.poll_requests import ListedGroup

NAMES = [f"group-{number}" for number in range(30)]


def group(name, state="Stable", kind="classic", protocol="consumer"):
    return ListedGroup(name, protocol, state, kind)


def test_busy_groups_are_asked_each_time_and_quiet_ones_in_turns():
    schedule = PollSchedule()
    asked = dict.fromkeys(NAMES, 0)
    for number in range(10 * QUIET_EVERY):
        schedule.next_round()
        for name in filter(schedule.asks_commits, NAMES):
            asked[name] += 1
            schedule.committed(name, news=name == NAMES[0] or number == 0)
    assert asked[NAMES[0]] == 10 * QUIET_EVERY
    quiet = {asked[name] for name in NAMES[1:]}
    assert max(quiet) <= 10 + BUSY_ROUNDS + 1
    assert min(quiet) >= 10


def test_a_quiet_group_that_commits_is_busy_again():
    schedule = PollSchedule()
    for _ in range(20):
        schedule.next_round()
        if schedule.asks_commits("g"):
            schedule.committed("g", news=False)
    while not schedule.asks_commits("g"):
        schedule.next_round()
    schedule.committed("g", news=True)
    schedule.next_round()
    assert schedule.asks_commits("g")


def test_members_are_asked_for_in_turns_and_where_the_state_is_another():
    schedule = PollSchedule()
    schedule.next_round()
    assert schedule.asks_members(group("g"))
    schedule.described(group("g"))
    rounds = []
    for _ in range(QUIET_EVERY):
        schedule.next_round()
        rounds.append(schedule.asks_members(group("g")))
        assert schedule.asks_members(group("g", "Empty"))
    assert sum(rounds) == 1


def test_a_group_has_gone_when_no_broker_lists_it_twice():
    schedule = PollSchedule()
    for _ in range(ABSENT_ROUNDS - 1):
        assert schedule.ended(["g", "h"], ["h"]) == []
    assert schedule.ended(["g", "h"], ["g", "h"]) == []  # it was only moving
    assert [schedule.ended(["g"], []) for _ in range(ABSENT_ROUNDS)][-1] == ["g"]


@given(st.lists(st.integers(0, 2 * MOST_PARTITIONS), max_size=3 * MOST_GROUPS))
def test_a_request_is_for_a_bounded_number_of_groups_and_partitions(sizes):
    names = [str(number) for number in range(len(sizes))]
    parts = [*requests_for(names, lambda name: sizes[int(name)])]
    assert [name for part in parts for name in part] == names
    for part in parts:
        assert 0 < len(part) <= MOST_GROUPS
        assert len(part) == 1 or sum(sizes[int(name)] for name in part) <= MOST_PARTITIONS


def test_members_are_asked_for_by_the_type_of_the_group():
    groups = [
        group("old", kind=""),
        group("classic"),
        group("new", kind="consumer"),
        group("connect", protocol="connect"),
        group("commits", kind="", protocol=""),
        group("streams", kind="streams", protocol="streams"),
    ]
    found = {kind: [one.name for one in of] for kind, of in by_kind(groups).items()}
    assert found == {
        "classic": ["old", "classic"],
        "consumer": ["new"],
        "none": ["connect", "commits", "streams"],
    }
