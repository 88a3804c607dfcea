"""Many topics in a batch: their lag is computed together, as each topic's is alone."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from levelwind.streaming.messages.lag_columns import LagRows, LagSamples
from levelwind.streaming.messages.rows import Kind, Row
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic import joint_update
from levelwind.streaming.topic.batch import TopicBatch
from levelwind.streaming.topic.state import LagRule
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import ID, OTHER, RULE, Story, run

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
