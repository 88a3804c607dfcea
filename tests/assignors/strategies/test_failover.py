from hypothesis import given

from levelwind.assignors.problem.inputs import Member
from levelwind.assignors.strategies.failover import failover_strategy
from levelwind_testing.groups.examples import BLOG_TOPICS, planned_names
from levelwind_testing.groups.random_groups import problems

ALL = {"A": [0, 1], "B": [0, 1]}


def planned(*members):
    return planned_names(failover_strategy, BLOG_TOPICS, members)


def test_the_blogs_example_gives_all_to_the_highest_priority_and_then_to_the_next():
    first = Member(id="C1", topics="*", priority=10)
    second, third = Member(id="C2", topics="*", priority=5), Member(id="C3", topics="*", priority=1)
    assert planned(first, second, third) == {"C1": ALL, "C2": {}, "C3": {}}
    assert planned(second, third) == {"C2": ALL, "C3": {}}


def test_a_member_without_a_priority_has_the_highest():
    assert (
        planned(Member(id="C1", topics="*", priority=2**31 - 2), Member(id="C2", topics="*"))["C2"]
        == ALL
    )


def test_equal_priorities_go_by_member_id():
    assert planned(Member(id="C2", topics="*"), Member(id="C1", topics="*")) == {
        "C1": ALL,
        "C2": {},
    }


def test_a_topic_that_the_first_does_not_read_goes_to_the_next_that_does():
    first = Member(id="C1", topics=["A"], priority=10)
    assert planned(first, Member(id="C2", topics="*", priority=-5)) == {
        "C1": {"A": [0, 1]},
        "C2": {"B": [0, 1]},
    }


@given(problem=problems())
def test_every_topic_is_with_its_first_reader(problem):
    group = problem.group
    names = failover_strategy(group).to_names(group)
    for topic, about in problem.topics.items():
        readers = [member for member in problem.members if topic in member.topics]
        if readers and about.partitions:
            first = min(readers, key=lambda member: (-member.priority, member.id))
            assert names[first.id][topic] == list(range(about.partitions))
