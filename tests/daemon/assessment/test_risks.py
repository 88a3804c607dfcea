"""Risks of a group: each rule where it speaks, and where it is silent."""

import pytest
from msgspec.structs import replace

from levelwind.daemon.assessment.gain import lag_of
from levelwind.daemon.assessment.observed_groups import EMPTY, REBALANCING, MemberDetail
from levelwind.daemon.assessment.pace import pace_of
from levelwind.daemon.assessment.risks import RULES, risks_of
from levelwind_testing.groups.observations import NAME, TOPIC, described, layout, member, observed

ONE = described(member("m", 0))
NONE = described(state=EMPTY, assignor="")
RESTS = ((0.0, [10], [10]), (60.0, [10], [10]))


def risks(observation):
    found = risks_of(observation, NAME, pace_of(observation, NAME), lag_of(observation, NAME))
    return {risk.kind: risk.text for risk in found}


def leaderless():
    found = layout(1)
    topic = replace(found.topics[TOPIC], leader=(-1,))
    return replace(found, topics={TOPIC: topic})


CASES = {
    "lag_grows": (
        observed(ONE, (0.0, [0], [0]), (60.0, [4000], [6000])),
        "lag grows by 33 records/s (33% of what arrives)",
    ),
    "member_stands_still": (
        observed(ONE, (0.0, [4], [10]), (60.0, [4], [10])),
        "member m committed nothing for 1 min, while 6 records wait",
    ),
    "idle_member": (
        observed(described(member("m", 0), member("spare")), *RESTS),
        "without a partition: member spare",
    ),
    "unclaimed": (
        observed(ONE, (0.0, [10, 0, 0], [10, 0, 0])),
        "no member owns orders:1-2",
    ),
    "no_leader": (
        observed(ONE, (0.0, [10], [None]), layout=leaderless()),
        "orders:0 without a leader: nobody can read there",
    ),
    "rebalancing": (
        observed(described(member("m"), state=REBALANCING, assignor=""), *RESTS),
        "the group was rebalancing in all of 2 samples",
    ),
    "lost_records": (
        observed(ONE, (0.0, [10], [90]), begins={(TOPIC, 0): 35}),
        "25 records of orders:0 were deleted before the group had committed them",
    ),
    "nobody_reads": (
        observed(NONE, (0.0, [4], [10]), (60.0, [4], [10])),
        "the group has no member, and 6 records wait",
    ),
    "old_commits": (
        observed(NONE, *RESTS, retention_minutes=10_080, old={(TOPIC, 0): 10}),
        (
            "the commits of orders:0 may be older than 3 d: without a member they expire after 7 d"
            " (offsets.retention.minutes)"
        ),
    ),
    "own_assignment": (
        observed(NONE, (0.0, [4], [10]), (60.0, [10], [10])),
        "commits advance without a member: its consumers assign their partitions themselves",
    ),
    "left_topics": (
        observed(described(member("m", detail=MemberDetail(None, ("other",)))), *RESTS),
        "no member reads topic orders any more: its commits will expire",
    ),
}


def test_every_rule_has_an_example():
    assert CASES.keys() == RULES.keys()


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_says_what_was_seen(kind):
    observation, text = CASES[kind]
    assert risks(observation)[kind] == text


def test_records_that_wait_are_a_lower_bound_beside_a_partition_without_a_known_end():
    samples = ((0.0, [4, 1], [10, None]), (60.0, [4, 1], [10, None]))
    text = risks(observed(NONE, *samples))["nobody_reads"]
    assert text == "the group has no member, and ≥6 records wait"


def test_a_group_at_rest_is_at_no_risk():
    assert risks(observed(ONE, *RESTS, retention_minutes=10_080)) == {}


def test_a_group_that_keeps_pace_is_at_no_risk_while_it_has_yet_to_commit():
    late = observed(ONE, (0.0, [1000], [1000]), (60.0, [6500], [7000]))
    assert risks(late) == {}, "five seconds of arrivals are no lag that grows"


def test_commits_of_a_group_with_members_do_not_expire():
    found = observed(ONE, *RESTS, retention_minutes=10_080, old={(TOPIC, 0): 10})
    assert "old_commits" not in risks(found)


def test_a_commit_behind_a_newer_record_is_not_old():
    found = observed(NONE, *RESTS, retention_minutes=10_080, old={(TOPIC, 0): 9})
    assert "old_commits" not in risks(found)


def test_nothing_is_said_of_old_commits_where_the_retention_may_not_be_read():
    found = observed(NONE, *RESTS, old={(TOPIC, 0): 10})
    assert "old_commits" not in risks(found)


def test_a_commit_beyond_the_log_is_named():
    assert "beyond the log" in risks(observed(ONE, (0.0, [10], [3])))["lost_records"]
