"""State of the pipeline as a checkpoint of a release holds it.

It is that of the same pure functions without Spark, as bytes, in the middle of a story. A later
release that takes itself for able to continue such a checkpoint (the same version of the state)
must go on with it as with its own.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from levelwind.streaming.spark.checkpoint import STATE, CheckpointShape
from levelwind_testing.groups.corpus import OFFSETS as FOREIGN
from levelwind_testing.pipeline.local_pipeline import OFFSETS, TOPICS, LocalPipeline, Message
from levelwind_testing.pipeline.scripted_log import RULE, SECOND, Story

SHAPE = CheckpointShape(cluster_id="4L6g3nShT-eMCtK--X86sw", prefix=TOPICS.prefix)
SECONDS, KEPT_SECONDS = 60, 42
"""Length of the story, and of the part of it that is in the state."""
BATCH_SECONDS = 6
SINGLY = 12
"""Messages after the state that have a batch each: so all of the state counts once."""


def _story(end: int) -> Story:
    """Two topics, and groups with commits, owners and plans, up to a second of the story.

    Every corpus has the state in the middle of it: it never changes.
    """
    story = Story()
    for at in range(end):
        if at == 0:
            story.layout(at, "orders", [["a"], ["b"], ["a", "c"]])
            story.layout(at, "payments", [["c"], ["a"]])
            for key, value in FOREIGN:
                story.add(OFFSETS, at * SECOND, key, value)
        if at == BATCH_SECONDS + 1:
            story.plan(at, "billing", metadata_at=at - 1)
            story.member(at, "billing", "w1", {"orders": (0, 1)}, rack="a", capacity=2.0)
            story.member(at, "billing", "w2", {"orders": (2,)}, rack="b")
        if at == KEPT_SECONDS:
            story.layout(at, "orders", [["b"], ["b"], ["a", "c"]])
            story.forget("search", "payments", 1, at * SECOND)
        if at % 3 == 0:
            story.commits(at, "billing", "orders", {0: 10 * at, 1: 7 * at, 2: at})
            reads = {0: 2 * at, 1: 3 * at} if at < KEPT_SECONDS else {0: 90}
            story.commits(at, "search", "payments", reads)
        gaps = ((0, 700, 300, 600), (), ()) if at > BATCH_SECONDS else None
        story.sample(at + 0.5, "orders", (11 * at + 9, 8 * at + 9, 30 * at + 60), gaps=gaps)
        story.sample(at + 0.5, "payments", (5 * at + 5, 3 * at + 5), (at // 2, 0))
    return story


def _within(first: int, last: int) -> list[Message]:
    return [m for m in _story(last).messages if m.at >= first * SECOND]


def recorded() -> dict[str, Any]:
    """Return the state in the middle of the story, with what a checkpoint says of it."""
    pipeline = LocalPipeline(skew=RULE)
    for start in range(0, KEPT_SECONDS, BATCH_SECONDS):
        pipeline.run(_within(start, start + BATCH_SECONDS))
    return {
        "shape": asdict(SHAPE),
        "version": STATE,
        "topics": _texts(pipeline.topics),
        "groups": _texts(pipeline.groups),
    }


def continued(state: Mapping[str, Any]) -> list[dict[tuple[str, Any], Any]]:
    """Continue a recorded state; return what each batch publishes, by topic and key."""
    pipeline = LocalPipeline(
        skew=RULE, topics=_bytes(state["topics"]), groups=_bytes(state["groups"])
    )
    messages = _within(KEPT_SECONDS, SECONDS)
    batches = [*([message] for message in messages[:SINGLY]), messages[SINGLY:]]
    return [
        {(row.topic, row.key): json.loads(row.value or b"null") for row in pipeline.run(batch)}
        for batch in batches
    ]


def _texts(values: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(raw).decode() for name, raw in sorted(values.items())}


def _bytes(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in texts.items()}
