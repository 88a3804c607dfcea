"""Replays of dead letters: after an upgrade a record applies at its own position in the log."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from levelwind.assignors.protocol.records import DeadLetter, ReplayRecord, Tombstone, decode, encode
from levelwind.daemon.inspection.dead_letters import (
    LetterVerdict,
    PartitionScan,
    classify,
    open_letters,
)
from levelwind.streaming.decoding import offset_commits
from levelwind.streaming.decoding.ingest import unreadable
from levelwind.streaming.messages.rows import Raw
from levelwind_testing.pipeline.coordinator_commands import Groups, owners, plan_of
from levelwind_testing.pipeline.local_pipeline import OFFSETS, TOPICS, LocalPipeline, Message
from levelwind_testing.pipeline.offsets_reference_codec import Golden, group_key
from levelwind_testing.pipeline.scripted_log import (
    OTHER,
    RULE,
    SECOND,
    Story,
    compacted,
    lag,
)

if TYPE_CHECKING:
    from levelwind.streaming.messages.rows import SinkRow

OLD = 3
"""The newest version of a commit that an older version of us could read: brokers write 4."""


class Installed:
    """One installation: a pipeline, its topics, and what an operator does about dead letters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pipeline = LocalPipeline(skew=RULE)
        self.log = Groups()
        self.out: list[SinkRow] = []
        self._patch = monkeypatch
        self._read = 0

    def reads_commits_up_to(self, version: int) -> None:
        self._patch.setattr(offset_commits, "NEWEST_VERSION", version)

    def run(self) -> None:
        """One batch of what was written since the last."""
        self.out += self.pipeline.run(self.log.messages[self._read :])
        self._read = len(self.log.messages)

    @property
    def letters(self) -> list[DeadLetter]:
        records = [
            decode("dead_letters", row.key, row.value)
            for row in self.out
            if row.topic == TOPICS.dead_letters
        ]
        return open_letters((r for r in records if isinstance(r, DeadLetter | Tombstone)), None)

    def scans(self) -> dict[str, PartitionScan]:
        """What an operator finds in each topic, read to its end."""
        offsets: dict[str, set[int]] = defaultdict(set)
        for letter in self.letters:
            offsets[letter.topic].add(letter.offset)
        scans: dict[str, PartitionScan] = {}
        for message in self.log.messages:
            scan = scans.setdefault(
                message.topic, PartitionScan(end=0, offsets=frozenset(offsets[message.topic]))
            )
            scan.end = message.offset + 1
            scan.add(raw_of(message))
        return scans

    def classified(self) -> list[Any]:
        scans = self.scans()
        return [
            classify(letter, scans.get(letter.topic, PartitionScan(end=0)), TOPICS, 0)
            for letter in self.letters
        ]

    def ask_again(self, replays: Sequence[ReplayRecord] | None = None) -> list[ReplayRecord]:
        """Give the pipeline what can be read now; by default what is found now."""
        replays = replays or [
            letter.replay for letter in self.classified() if letter.replay is not None
        ]
        for replay in replays:
            key, value = encode(replay)
            self.log.add(TOPICS.replays, 99 * SECOND, key, value)
        return list(replays)


def raw_of(message: Message) -> Raw:
    return Raw(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        timestamp=message.at,
        key=message.key,
        value=message.value,
    )


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Installed in an old version, which cannot read the commit that partition 0 has."""
    installed = Installed(monkeypatch)
    installed.reads_commits_up_to(OLD)
    installed.log.layout(0, "t", [["a"], ["b"]])
    installed.log.commits(1, "g", "t", {0: 60})
    installed.log.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"], ["b"]], at=0)})
    installed.log.sample(2, "t", [100, 100])
    installed.run()
    assert [(letter.topic, letter.offset, letter.reason) for letter in installed.letters] == [
        (OFFSETS, 0, "unknown commit version")
    ]
    assert lag(installed.out)["committed"] == [-1, -1]
    return installed


def upgraded(installed: Installed) -> None:
    installed.reads_commits_up_to(4)


def test_a_commit_that_can_be_read_after_an_upgrade_counts_and_its_letter_ends(
    installed: Installed,
) -> None:
    upgraded(installed)
    installed.ask_again()
    installed.run()
    assert lag(installed.out)["committed"] == [60, -1]
    assert lag(installed.out)["lag"] == [40, 100]
    assert installed.letters == []


def test_asked_again_before_the_upgrade_it_stays_a_letter(installed: Installed) -> None:
    (before,) = installed.classified()
    assert (before.verdict, before.reason) == (LetterVerdict.UNREADABLE, "unknown commit version")
    replay = ReplayRecord(
        at=0,
        topic=OFFSETS,
        partition=0,
        offset=0,
        timestamp=1000,
        until=1,
        raw_key=before.letter.raw_key,
        raw_value=before.letter.raw_value,
    )
    installed.ask_again([replay])  # by an operator whose own version is newer than the daemon's
    installed.run()
    assert lag(installed.out)["committed"] == [-1, -1]
    assert len(installed.letters) == 1


def test_to_ask_twice_is_to_ask_once(installed: Installed) -> None:
    upgraded(installed)
    replays = installed.ask_again()
    installed.run()
    once = compacted(installed.out)
    installed.ask_again(replays)
    installed.ask_again(replays)
    installed.run()
    assert compacted(installed.out) == once
    assert installed.letters == []


@pytest.mark.parametrize(
    "sampled", [None, 3, 4], ids=["one batch", "counted", "waiting to be counted"]
)
def test_a_retried_commit_does_not_win_over_a_newer_one(
    installed: Installed, sampled: int | None
) -> None:
    upgraded(installed)
    stale = [letter.replay for letter in installed.classified()]
    installed.log.commits(3, "g", "t", {0: 90})
    if sampled is not None:
        installed.log.sample(sampled, "t", [100, 100])
        installed.run()
    (now,) = installed.classified()
    assert now.verdict is LetterVerdict.OUTDATED, "who asks now is told so"
    installed.ask_again(stale)
    installed.run()
    assert lag(installed.out)["committed"] == [90, -1], "and who asked before does no harm"
    assert installed.letters == []


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "batch after batch"])
def test_a_retried_commit_does_not_come_back_from_its_tombstone(
    installed: Installed, *, together: bool
) -> None:
    upgraded(installed)
    stale = [letter.replay for letter in installed.classified()]
    installed.log.forget("g", "t", 0, 3000)
    if not together:
        installed.run()
    installed.ask_again(stale)
    installed.run()
    assert lag(installed.out)["committed"] == [-1, -1]
    installed.log.sample(4, "t", [100, 100])
    installed.run()
    assert lag(installed.out)["committed"] == [-1, -1]
    assert [letter.verdict for letter in installed.classified()] in ([], [LetterVerdict.OUTDATED])


def test_a_retried_commit_does_not_come_back_from_a_tombstone_that_its_topics_layout_follows(
    installed: Installed,
) -> None:
    installed.log.commits(3, "g", "t", {0: 30}, topic_id=OTHER)
    installed.run()
    upgraded(installed)
    stale = [letter.replay for letter in installed.classified() if letter.replay is not None]
    assert len(stale) == 1
    installed.log.forget("g", "t", 0, 4000)
    installed.log.layout(5, "t", [["a"], ["b"]], topic_id=OTHER)
    installed.log.sample(6, "t", [50, 50], topic_id=OTHER)
    installed.run()
    installed.ask_again(stale)
    installed.run()
    assert lag(installed.out)["committed"] == [-1, -1]


def test_a_retry_that_another_tombstone_makes_unsure_is_made_again(installed: Installed) -> None:
    upgraded(installed)
    stale = [letter.replay for letter in installed.classified()]
    installed.log.forget("other", "t", 1, 3000)
    installed.run()
    installed.ask_again(stale)
    installed.run()
    assert lag(installed.out)["committed"] == [-1, -1], "its key might have been that tombstone's"
    assert len(installed.letters) == 1
    installed.ask_again()
    installed.run()
    assert lag(installed.out)["committed"] == [60, -1]
    assert installed.letters == []


def test_a_record_that_compaction_took_away_is_outdated(installed: Installed) -> None:
    upgraded(installed)
    (letter,) = installed.letters
    scan = PartitionScan(end=7, offsets=frozenset({0}))
    scan.add(raw_of(replace(installed.log.messages[0], topic=OFFSETS, offset=5)))
    assert classify(letter, scan, TOPICS, 0).verdict is LetterVerdict.OUTDATED


def test_a_record_of_a_topic_made_anew_is_not_the_letters(installed: Installed) -> None:
    upgraded(installed)
    (letter,) = installed.letters
    scan = PartitionScan(end=7, offsets=frozenset({0}))
    scan.add(
        Raw(topic=OFFSETS, partition=0, offset=0, timestamp=0, key=letter.raw_key, value=b"another")
    )
    assert classify(letter, scan, TOPICS, 0).verdict is LetterVerdict.OUTDATED


def test_a_letter_that_was_cut_is_replayed_whole(installed: Installed) -> None:
    upgraded(installed)
    (letter,) = installed.letters
    cut = structs.replace(letter, raw_value=(letter.raw_value or b"")[:5])
    classified = classify(cut, installed.scans()[OFFSETS], TOPICS, 0)
    assert classified.replay is not None
    assert classified.replay.raw_value == letter.raw_value


# -- groups


def test_a_groups_record_counts_after_an_upgrade(
    monkeypatch: pytest.MonkeyPatch, golden: Mapping[str, Golden]
) -> None:
    installed = Installed(monkeypatch)
    group = "golden-classic"
    monkeypatch.setattr("levelwind.streaming.decoding.classic_group.NEWEST_VERSION", 2)
    installed.log.layout(0, "golden", [["a"], ["b"], ["c"]])
    installed.log.commits(1, group, "golden", {0: 1})
    installed.log.add(
        OFFSETS, 1000, group_key(group), golden["classic_group_with_two_members"].value
    )
    installed.log.sample(2, "golden", [9, 9, 9])
    installed.run()
    assert [letter.reason for letter in installed.letters] == ["unknown group metadata version"]
    monkeypatch.setattr("levelwind.streaming.decoding.classic_group.NEWEST_VERSION", 4)
    stale = [letter.replay for letter in installed.classified()]
    installed.log.add(
        OFFSETS, 3000, b"\x00\x03" + group_key(group)[2:], None
    )  # the group's, of another key
    installed.run()
    installed.ask_again(stale)
    installed.run()
    assert len(installed.letters) == 1, "nobody has compared it with what came since"
    installed.ask_again()
    installed.log.sample(4, "golden", [9, 9, 9])
    installed.run()
    installed.log.sample(5, "golden", [9, 9, 9])
    installed.run()
    assert owners(lag(installed.out, group, "golden"))[1] == "static-2"
    assert installed.letters == []


def test_a_plan_and_a_layout_count_after_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of ours of a newer `v`, written by a daemon that was upgraded before its pipeline."""
    from levelwind.assignors.protocol.records import KINDS  # noqa: PLC0415
    from levelwind.assignors.protocol.records.planned_group import GroupRecord  # noqa: PLC0415 - patched by name

    installed = Installed(monkeypatch)
    kind = KINDS["assignments"]["g"]
    later = replace(kind, record=type("LaterRecord", (GroupRecord,), {"V": GroupRecord.V + 1}))
    monkeypatch.setitem(KINDS["assignments"], "g", later)  # type: ignore[index]
    installed.log.layout(0, "t", [["a"]])
    installed.log.plan(1, "g", metadata_at=0, topics={"t": plan_of([["a"]], at=0)})
    installed.log.sample(2, "t", [7])
    installed.run()
    assert lag(installed.out) is None
    monkeypatch.setitem(KINDS["assignments"], "g", kind)  # type: ignore[index]
    installed.ask_again()
    installed.run()
    installed.log.sample(3, "t", [8])
    installed.run()
    assert lag(installed.out)["lag"] == [8]
    assert installed.letters == []


def test_an_old_layout_does_not_win_over_a_newer_one() -> None:
    story = Story()
    story.layout(1, "t", [["a"]])
    story.commits(1, "g", "t", {0: 1})
    story.layout(2, "t", [["b"]])
    story.sample(3, "t", [7])
    pipeline = LocalPipeline(skew=RULE)
    out = pipeline.run(story.messages)
    old = story.messages[0]
    replay = ReplayRecord(
        at=0,
        topic=old.topic,
        partition=0,
        offset=0,
        timestamp=old.at,
        until=9,
        raw_key=old.key,
        raw_value=old.value,
    )
    again = Story()
    again.add(TOPICS.replays, 9000, *encode(replay))
    out += pipeline.run(again.messages)
    again = Story()
    again.sample(4, "t", [7])
    out += pipeline.run([replace(again.messages[0], offset=9)])
    assert lag(out)["racks"] == [["b"]]


# -- what can be read


def test_what_nothing_is_made_of_has_had_its_due() -> None:
    pipeline = LocalPipeline(skew=RULE)
    story = Story()
    replay = ReplayRecord(
        at=0,
        topic=OFFSETS,
        partition=3,
        offset=5,
        timestamp=1,
        until=6,
        raw_key=b"\x00\x18?",
        raw_value=b"",
    )
    story.add(TOPICS.replays, 1000, *encode(replay))
    (row,) = pipeline.run(story.messages)
    assert (json.loads(row.key), row.value) == ([OFFSETS, 3, 5], None)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (
            TOPICS.replays,
            "malformed levelwind record: the pipeline does not read levelwind.replays",
        ),
        ("orders", "malformed levelwind record: the pipeline does not read orders"),
    ],
)
def test_a_record_of_a_topic_that_is_not_read_is_unreadable(topic: str, reason: str) -> None:
    raw = Raw(topic=topic, partition=0, offset=0, timestamp=0, key=b"k", value=b"v")
    assert unreadable(raw, TOPICS) == reason


def test_letters_stand_until_their_tombstone_and_the_last_word_on_a_place_counts() -> None:
    letter = DeadLetter(
        at=1, topic="t", partition=0, offset=5, reason="r", raw_key=b"k", raw_value=b"v"
    )
    other = structs.replace(letter, topic="u")
    again = structs.replace(letter, reason="s")
    assert open_letters([letter, other, again], None) == [again, other]
    assert open_letters([letter, other], "u") == [other]
    assert open_letters([letter, Tombstone(letter.key), other], None) == [other]
