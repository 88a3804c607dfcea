"""Standbys spread over tags, against a twin that tries every choice."""

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.kafka_streams import (
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Task,
    assign,
)
from levelwind.assignors.kafka_streams.rack_tags import MAX_CHOICES, TagSpread
from levelwind_testing.examples import examples


def random_classes(random):
    tags = random.randint(1, 3)
    made = {
        tuple(random.choice([None, "x", "y", "z"]) for _ in range(tags))
        for _ in range(random.randint(1, 6))
    }
    classes = sorted(
        made, key=lambda values: [(value is not None, value or "") for value in values]
    )
    return classes, [random.randint(1, 2) for _ in classes]


def values_of(classes, chosen):
    return sum(
        len({classes[each][tag] for each in chosen} - {None}) for tag in range(len(classes[0]))
    )


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=examples(100))
def test_no_choice_of_processes_covers_more_values(random):
    classes, room = random_classes(random)
    processes = [each for each, count in enumerate(room) for _ in range(count)]
    active = random.choice(processes)
    others = processes.copy()
    others.remove(active)
    left = random.randint(0, min(3, len(others)))
    tag_spread = TagSpread(classes, room)
    best = max(values_of(classes, (active, *chosen)) for chosen in combinations(others, left))
    for choice in tag_spread.choices([active], left):
        assert values_of(classes, (active, *choice)) == best
        assert all(choice.count(each) + (each == active) <= room[each] for each in choice)
    used = [active]
    for step in range(left):
        used.append(random.choice(tag_spread.allowed(used, left - step)))
    assert (
        values_of(classes, used)
        == best
        == tag_spread.covered(used)
        == sum(tag_spread.distinct(used))
    )


def test_two_tags_are_spread_where_a_choice_one_by_one_would_end_short():
    """After (a, x), (b, y) looks as good as any, but no other class then completes both tags."""
    classes = [("a", "x"), ("b", "y"), ("b", "z"), ("c", "y")]
    tag_spread = TagSpread(classes, [1, 1, 1, 1])
    assert tag_spread.allowed([0], 2) == (2, 3)
    assert tag_spread.choices([0], 2) == ((2, 3),)


def test_with_many_classes_each_standby_goes_where_it_adds_most():
    classes = [(f"zone{zone}", f"host{zone}-{host}") for zone in range(3) for host in range(100)]
    tag_spread = TagSpread(classes, [1] * len(classes))
    first = tag_spread.allowed([0], 2)
    assert first == tuple(range(100, 300))
    assert all(len(choice) == 1 for choice in tag_spread.choices([0], 2))
    assert len(first) > MAX_CHOICES
    assert tag_spread.allowed([0, 150], 1) == tuple(range(200, 300))


class SaltedText(str):
    """A text with a hash of its own, as each process of Python gives it one."""

    salt = 0
    __slots__ = ()

    def __hash__(self):
        return hash((self.salt, str(self)))


def test_no_plan_depends_on_the_hashes_of_texts(monkeypatch):
    """A tag without a value is another class than one that is missing."""

    def planned(salt):
        monkeypatch.setattr(SaltedText, "salt", salt)
        tags = [
            {"zone": "", "cluster": "k1"},
            {"zone": "", "cluster": "k2"},
            {"zone": "z1", "cluster": "k1"},
            {"cluster": "k1"},
            {"zone": "", "cluster": "k1"},
        ]
        processes = [
            StreamsProcess(
                id=f"p{number}",
                tags={tag: SaltedText(value) for tag, value in own.items()},
                consumers=[
                    StreamsConsumer(id=f"c{number}", active=(f"0_{number}",) if number < 4 else ())
                ],
            )
            for number, own in enumerate(tags)
        ]
        settings = StreamsSettings(standby_replicas=3, rack_aware_tags=("zone", "cluster"))
        tasks = [Task(subtopology="0", partition=number) for number in range(4)]
        return sorted(assign(tasks, processes, settings).rows())

    plan = planned(0)
    assert all(planned(salt) == plan for salt in range(1, 30))
