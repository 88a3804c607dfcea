"""Plain batches: topics that are updated together are as each is by an update of its own."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from levelwind.streaming.messages.rows import Row
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic import joint_update
from levelwind.streaming.topic.batch import TopicBatch
from levelwind.streaming.topic.plain.plain_batch import PlainBatch
from levelwind.streaming.topic.plain.plain_update import Updated, advance_together
from levelwind.streaming.topic.state import LagRule
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import ID, OTHER, RULE, Story, run

TOPICS = {"a": 3, "b": 3, "c": 3, "d": 1, "e": 5, "f": 3}
GROUPS = ["g0", "g1", "g2", "g3"]
ROUNDS = 50


class PlainAndWhole(LocalPipeline):
    """A pipeline that holds updates of plain batches to `update.advance`."""

    counted: Counter[str]
    seed: random.Random

    def of_topics(self, batches: Mapping[str, TopicBatch]) -> list[Row]:
        self.offsets_read = self.seed.choice([None] * 8 + [{0: 0}] + [{0: 10**6}] * 2)
        before = dict(self.topics)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PlainBatch, "of", lambda *_: None)
            alone = list(LocalPipeline.of_topics(self, batches))
        states, self.topics = self.topics, before
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joint_update, "advance_together", self._advance)
            together = list(LocalPipeline.of_topics(self, batches))
        assert together == alone
        assert self.topics == states
        self.counted["all"] += len(batches)
        return together

    def _advance(self, batches: Sequence[PlainBatch], rule: LagRule) -> Sequence[Updated | None]:
        updated = advance_together(batches, rule)
        for batch, result in zip(batches, updated, strict=True):
            if result is None:
                self.counted["not plain"] += 1
                continue
            self.counted["plain"] += 1
            self.counted[f"{min(len(batch.samples), 2)} samples"] += 1
            self.counted["waiting"] += result.state.uncounted_commits.code.size > 0
            self.counted["baseline"] += result.state.baselines != batch.state.baselines
        return updated


def story_of(seed: int) -> Story:
    """Commits of all groups, and samples of nearly all topics at the same times."""
    rng = random.Random(seed)
    story, now, end = Story(), 1, 100
    ids = {topic: rng.choice([ID, None]) for topic in TOPICS}
    for topic, partitions in TOPICS.items():
        story.layout(now, topic, [["a"]] * partitions)
    for _ in range(ROUNDS):
        now += rng.choice([1, 5, 30])
        end += rng.choice([0, 10])
        cut = (sum(message.topic.startswith("__") for message in story.messages),)
        for topic in TOPICS:
            _commit(story, rng, topic, now, end, ids[topic])
        for topic, partitions in TOPICS.items():
            ends = [end + number for number in range(partitions)]
            if rng.random() < 0.1:
                ends[-1] = UNKNOWN
            if rng.random() < 0.9:
                at = now - rng.choice([0] * 30 + [2, 120])
                gaps = [(30, end, 50, 55)] * partitions if rng.random() < 0.1 else None
                exact = None if rng.random() < 0.01 else cut
                story.sample(
                    at, topic, ends, begin=[end // 2] * partitions, commits=exact, gaps=gaps
                )
        if rng.random() < 0.05:
            story.member(now, "g0", "m", {"a": (0,)})
            story.gone(now, rng.choice(list(TOPICS)))
    return story


def _commit(
    story: Story, rng: random.Random, topic: str, now: int, end: int, topic_id: bytes | None
) -> None:
    """Commits of some groups, rarely of a new one, without an id, or that are gone again."""
    for group in GROUPS[: 3 + (rng.random() < 0.05)]:
        if rng.random() < 0.6:
            offsets = {p: max(0, end + rng.randint(-40, 3)) for p in range(TOPICS[topic])}
            other = rng.choice([None, OTHER]) if rng.random() < 0.005 else topic_id
            story.commits(now, group, topic, offsets, other)
            if rng.random() < 0.005:
                story.forget(group, topic, 0, now * 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "rule", "some"),
    [
        (8, LagRule(), "0 samples"),
        (40, LagRule(end_kind="high", reset="latest"), "1 samples"),
        (150, LagRule(reset="latest", group_resets={"g1": "earliest"}), "2 samples"),
    ],
)
def test_topics_with_plain_batches_are_as_by_updates_of_their_own(
    every: int, rule: LagRule, some: str
) -> None:
    pipeline = PlainAndWhole(skew=RULE, lag=rule)
    pipeline.counted, pipeline.seed = Counter(), random.Random(every)
    story = story_of(every)
    run(story, pipeline, range(0, len(story.messages), every))
    counted = pipeline.counted
    assert counted["plain"] > counted["all"] / 2
    assert counted["not plain"] > counted["all"] / 20
    assert min(counted["waiting"], counted["baseline"], counted[some]) > counted["plain"] / 20


def test_a_topic_id_goes_with_the_last_commit_that_has_it() -> None:
    pipeline = PlainAndWhole(skew=RULE)
    pipeline.counted, pipeline.seed = Counter(), random.Random(0)
    story = Story()
    story.commits(1, "g0", "d", {0: 5})
    story.sample(2, "d", [10], commits=(1,))
    story.commits(3, "g0", "d", {0: 6})
    story.commits(4, "g0", "d", {0: 7}, topic_id=None)
    story.sample(5, "d", [10], commits=(3,))
    run(story, pipeline, [2])
    assert pipeline.counted["not plain"] == 1
