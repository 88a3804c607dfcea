"""The rows of one topic in one batch, unpacked, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.streaming.messages.rows import Kind, PlanCovers, Raw, TopicCommits

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBatch:
    """The content of a batch for one topic."""

    commits: tuple[TopicCommits, ...]
    replayed_commits: tuple[TopicCommits, ...]
    """Replays from an operator, each of one commit."""
    plans: tuple[PlanCovers, ...]
    """Plans that cover the topic, the newest first."""
    records: tuple[Raw, ...]
    """Records of the observer, in the order of their log; replayed ones, too."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, bytes]]) -> TopicBatch:
        """The batch of some rows, kind and payload, in any order."""
        commits: list[TopicCommits] = []
        replayed_commits: list[TopicCommits] = []
        plans: list[PlanCovers] = []
        records: list[Raw] = []
        for kind, payload in rows:
            match kind:
                case Kind.COMMITS:
                    commits.append(TopicCommits.unpack(payload))
                case Kind.REPLAYED_COMMIT:
                    replayed_commits.append(TopicCommits.unpack(payload))
                case Kind.PLAN_COVERS:
                    plans.append(PlanCovers.unpack(payload))
                case _:
                    records.append(Raw.unpack(payload))
        plans.sort(key=lambda plan: (plan.at, plan.group), reverse=True)
        records.sort(key=lambda raw: (raw.partition, raw.offset))
        return cls(
            commits=tuple(commits),
            replayed_commits=tuple(replayed_commits),
            plans=tuple(plans),
            records=tuple(records),
        )
