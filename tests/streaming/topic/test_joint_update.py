"""Many topics in a batch: their lag is computed together, as each topic's is alone."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from levelwind.assignors.protocol.records import PlannedTopic
from levelwind.streaming.messages.lag_columns import LagRows, LagSamples
from levelwind.streaming.messages.rows import Kind, Row
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic import joint_update
from levelwind.streaming.topic.batch import TopicBatch
from levelwind.streaming.topic.joint_update import INDEX
from levelwind.streaming.topic.state import READER_TTL_MS, LagRule, TopicState
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import (
    ID,
    OTHER,
    RULE,
    SECOND,
    Story,
    lag,
    name_of,
    run,
)

PARTITIONS = {"a": 3, "b": 3, "c": 3, "d": 3, "e": 5, "f": 1}
"""Number of partitions of each topic: those of the same number are computed together."""
GROUPS = ["g0", "g1", "g2", "g3", "g4"]
STEPS = 160


class TogetherAndAlone(LocalPipeline):
    """A pipeline that holds topics of one batch to each topic in a batch of its own."""

    compared: Counter[int]

    def of_topics(self, batches: Mapping[str, TopicBatch]) -> list[Row]:
        before = dict(self.topics)
        alone = [
            row
            for topic, batch in batches.items()
            for row in LocalPipeline.of_topics(self, {topic: batch})
        ]
        states, self.topics = self.topics, before
        together = list(LocalPipeline.of_topics(self, batches))
        parts = content(together)
        assert parts == content(alone)
        assert self.topics == states
        self.compared.update(kind for kind, *_ in parts.elements())
        return together


def content(rows: Iterable[Row]) -> Counter[tuple[int, str, str, str]]:
    """Rows to compare, each with its kind: lag by topic and group, packed together or alone."""
    found: Counter[tuple[int, str, str, str]] = Counter()
    for row in rows:
        match row.kind:
            case Kind.LAG_SAMPLES:
                samples = LagSamples.unpack(row.payload)
                of_group, parts = samples.group, map(samples.sample, range(samples.group.size))
                names = samples.groups
            case Kind.LAGS:
                lags = LagRows.unpack(row.payload)
                of_group, parts = lags.group, map(lags.row, range(lags.group.size))
                names = lags.groups
            case _:
                found[row.kind, row.state_key, row.subject, repr(row.payload)] += 1
                continue
        for group, part in zip(of_group.tolist(), parts, strict=True):
            found[row.kind, row.state_key, names[group], repr(part)] += 1
    return found


def story_of(seed: int) -> Story:
    """Commits, samples, layouts and plans of all topics in any order."""
    rng = random.Random(seed)
    story, ends, grown = Story(), dict.fromkeys(PARTITIONS, 100), dict(PARTITIONS)
    for second in range(1, STEPS):
        topic, group = rng.choice(list(PARTITIONS)), rng.choice(GROUPS)
        match rng.choices(
            ["commit", "sample", "layout", "plan", "gone", "more"], [8, 9, 1, 1, 0.2, 0.3]
        )[0]:
            case "commit":
                offsets = {
                    partition: max(0, ends[topic] + rng.randint(-40, 2))
                    for partition in range(grown[topic])
                    if rng.random() < 0.6
                }
                story.commits(second, group, topic, offsets, rng.choice([ID, ID, ID, OTHER, None]))
                if rng.random() < 0.1:
                    story.forget(group, topic, 0, second * 1000)
            case "sample":
                ends[topic] += rng.choice([0, 0, 10, 20])
                end = [max(ends[topic] - number, 0) for number in range(grown[topic])]
                if rng.random() < 0.2:
                    end[0] = UNKNOWN
                gaps = [(30, ends[topic], 50, 55)] * grown[topic] if rng.random() < 0.1 else None
                cut = (sum(message.topic.startswith("__") for message in story.messages),)
                story.sample(
                    second, topic, end, gaps=gaps, commits=cut if rng.random() < 0.8 else None
                )
            case "layout":
                story.layout(second, topic, [["a"]] * grown[topic])
            case "plan":
                story.member(second, group, "m", {topic: (0,)})
            case "gone":
                story.gone(second, topic)
            case _:
                grown[topic] += 1
    return story


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "rule", [LagRule(), LagRule(end_kind="high", reset="latest", group_resets={"g1": "earliest"})]
)
def test_topics_of_one_batch_are_as_each_alone(rule: LagRule, seed: int) -> None:
    pipeline = TogetherAndAlone(skew=RULE, lag=rule)
    pipeline.compared = Counter()
    story = story_of(seed)
    run(story, pipeline, range(0, len(story.messages), 40))
    assert min(pipeline.compared[kind] for kind in (Kind.LAG_SAMPLES, Kind.LAGS)) > STEPS // 4


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 10])
def test_where_the_batch_is_divided_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    story = story_of(0)
    whole = run(story, LocalPipeline(skew=RULE))
    monkeypatch.setattr(joint_update, "JOINT_CELLS", cells)
    assert Counter(run(story, LocalPipeline(skew=RULE))) == Counter(whole)


# -- topics that nobody has seen

DAY = 24 * 60 * 60
WEEK = READER_TTL_MS // SECOND
PLANNED = PlannedTopic(id=name_of(ID), partitions=1)


def indexed(pipeline: LocalPipeline) -> set[str]:
    """The names in the index of a pipeline's topics, which are those with readers alone."""
    states = {name: TopicState.unpack(value) for name, value in pipeline.topics.items()}
    index = states.pop(INDEX, TopicState.empty())
    unseen = {name: max(s.planned_readers.values()) for name, s in states.items() if s.unseen}
    assert index.planned_readers == unseen
    return set(unseen)


@pytest.mark.parametrize("seed", range(6))
def test_the_index_has_the_topics_of_which_nothing_but_readers_is_known(seed: int) -> None:
    rng, pipeline = random.Random(seed), LocalPipeline()
    story, sizes = Story(), set[int]()
    for second in range(0, 100 * DAY, DAY):
        topic, group = f"t{rng.randrange(9)}", rng.choice(GROUPS)
        match rng.choice(["plan", "plan", "commit", "forget", "layout", "gone", "gone"]):
            case "plan":
                story.plan(second, group, 0, {topic: PLANNED})
            case "commit":
                story.commits(second, group, topic, {0: 5})
            case "forget":
                for each in GROUPS:
                    story.forget(each, topic, 0, second * SECOND)
            case "layout":
                story.layout(second, topic, [["a"]])
            case _:
                story.gone(second, topic)
    for first in range(0, len(story.messages), 5):
        pipeline.run(story.messages[first : first + 5])
        sizes.add(len(indexed(pipeline)))
    assert len(sizes) > 2


@pytest.mark.parametrize("batches", [[], range(0, 999, 7), range(999)])
@pytest.mark.parametrize("kind", ["never seen", "deleted"])
def test_names_that_nobody_uses_any_more_leave_nothing(kind: str, batches: Iterable[int]) -> None:
    """As queues of replies: each left a state for ever, as no record would name it again."""
    story = Story()
    for day in range(100):
        name, second = f"replies-{day}", day * DAY
        if kind == "deleted":
            story.layout(second, name, [["a"]])
        story.plan(second, "g", 0, {"orders": PLANNED, name: PLANNED})
        story.layout(second + 1, "orders", [["a"]])
        if kind == "deleted":
            story.gone(second + 2, name)
    pipeline = LocalPipeline()
    run(story, pipeline, batches)
    assert indexed(pipeline) == {f"replies-{day}" for day in range(92, 100)}
    assert pipeline.topics.keys() == indexed(pipeline) | {"orders", INDEX}


@pytest.mark.parametrize("batches", [[], range(0, 999, 7), range(999)])
@pytest.mark.parametrize("size", [1, joint_update.JOINT_BYTES])
def test_names_in_a_state_of_a_release_without_an_index_leave_nothing_either(
    monkeypatch: pytest.MonkeyPatch, batches: Iterable[int], size: int
) -> None:
    monkeypatch.setattr(joint_update, "JOINT_BYTES", size)
    pipeline, old, new = LocalPipeline(), Story(), Story()
    old.layout(1, "orders", [["a"]])
    for second in range(2, 52):
        old.plan(second, "g", 0, {"orders": PLANNED, f"old-{second}": PLANNED})
    run(old, pipeline)
    del pipeline.topics[INDEX]
    for day in range(1, 40):
        new.plan(day * DAY, "g", 0, {"orders": PLANNED, f"new-{day}": PLANNED})
    run(new, pipeline, batches)
    assert indexed(pipeline) == {f"new-{day}" for day in range(32, 40)}
    assert pipeline.topics.keys() == indexed(pipeline) | {"orders", INDEX}


def test_all_states_are_read_for_the_index_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has become empty."""
    pipeline, listed = LocalPipeline(), list[None]()
    monkeypatch.setattr(LocalPipeline, "names", lambda self: listed.append(None) or [*self.topics])
    story = Story()
    for second in range(1, 10, 2):
        story.plan(second, "g", 0, {"t": PLANNED})
        story.layout(second + 1, "t", [["a"]])
        story.gone(second + 1.5, "t")
    run(story, pipeline, range(99))
    assert len(listed) == 1


def test_unseen_topics_of_a_bucket_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_update, "MOST_UNSEEN", 5)
    story = Story()
    for second in range(1, 20):
        story.plan(second, "g", 0, {f"t{second}": PLANNED})
    for batches in ([], range(99)):
        pipeline = LocalPipeline()
        run(story, pipeline, batches)
        assert indexed(pipeline) == {f"t{second}" for second in range(15, 20)}


def test_one_record_with_a_wrong_clock_drops_no_topic() -> None:
    story = Story()
    story.plan(1, "quiet", 0, {"t": PLANNED})
    story.plan(2 * WEEK, "wrong", 0, {"u": PLANNED, "v": PLANNED})
    story.plan(3, "g", 0, {"w": PLANNED})
    story.layout(4, "t", [["a"]])
    story.sample(5, "t", [7])
    for batches in ([], range(9)):
        assert lag(run(story, LocalPipeline(), batches), "quiet") is not None


def test_names_with_a_wrong_clock_drop_no_name_that_comes_later() -> None:
    story, pipeline = Story(), LocalPipeline()
    for name in ("u", "vv"):
        story.plan(52 * WEEK + len(name), "wrong", 0, {name: PLANNED})
    for second in range(1, 9):
        story.plan(second, "g", 0, {f"t{second}": PLANNED})
    run(story, pipeline, range(99))
    assert indexed(pipeline) == {"u", "vv", *(f"t{second}" for second in range(1, 9))}


def test_a_subscription_to_a_topic_without_a_name_has_no_effect() -> None:
    """The index has that name."""
    story = Story()
    story.plan(1, "g", 0, {"": PLANNED, "t": PLANNED})
    story.plan(2, "h", 0, {"": PLANNED})
    for batches in ([], range(9)):
        pipeline = LocalPipeline()
        run(story, pipeline, batches)
        assert indexed(pipeline) == {"t"}
