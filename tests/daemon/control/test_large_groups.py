"""Transcripts of groups whose records are too large for one message."""

import pytest

from levelwind.assignors.protocol.records import (
    GroupRecord,
    GroupShard,
    Tombstone,
    cutting,
    decode,
    encode,
)
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind_testing.control.play import begun
from levelwind_testing.records import member, topic

MEMBERS = 40


@pytest.fixture(autouse=True)
def small_messages(monkeypatch):
    """Cut records as if messages of brokers were small."""
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 2_000)


def started(*names):
    play = begun(topic(racks=((),) * MEMBERS))
    play.join(*map(member, names))
    play.wait(3)
    return play


def names(count):
    return [f"m{number:02}" for number in range(count)]


def kept_shards(play):
    newest = {
        record.key: record
        for kind, record in play.published
        if kind == "assignments" and record.key[0] in ("gs", "ms")
    }
    return [key for key, record in newest.items() if not isinstance(record, Tombstone)]


def test_the_shards_of_a_plan_stand_before_its_head_in_one_transaction():
    play = started(*names(MEMBERS))
    step = next(step for step in play.steps if any(isinstance(r, GroupRecord) for r in step))
    kinds = [type(record) for record in step if isinstance(record, GroupRecord | GroupShard)]
    assert kinds == [*[GroupShard] * (len(kinds) - 1), GroupRecord]
    assert len(kinds) > 3
    reassembly = Reassembly()
    (plan,) = [
        whole
        for record in step
        if isinstance(whole := reassembly.take(decode("assignments", *encode(record))), GroupRecord)
    ]
    assert plan == play.state.groups["g"].plan


def test_a_daemon_that_restarts_reads_the_whole_plan_and_makes_no_other():
    play = started(*names(MEMBERS))
    before = play.state.groups["g"]
    play.restart()
    play.wait(5)
    after = play.state.groups["g"]
    assert len(play.plans) == 1
    assert (after.plan, after.target, after.shards) == (before.plan, before.target, before.shards)


def test_a_plan_that_lacks_a_shard_is_made_again_with_a_higher_epoch():
    play = started(*names(MEMBERS))
    play.written = [(k, r) for k, r in play.written if r.key != ("gs", "g", 1)]
    play.restart()
    play.wait(5)
    assert play.logged("record.incomplete") == [{"key": ["g", "g"]}]
    epochs = [plan["group_epoch"] for plan in play.plans]
    assert len(epochs) == 2
    assert epochs[0] < epochs[1]
    assert not play.logged("member.evicted")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_smaller_plan_ends_the_shards_that_it_does_not_need(restarts):
    play = started(*names(MEMBERS))
    many = len(kept_shards(play))
    if restarts:
        play.restart()
    for name in names(MEMBERS)[20:]:
        play.leave(name, "i1")
    play.wait(5)
    assert 0 < len(kept_shards(play)) < many
    for name in names(MEMBERS)[4:20]:
        play.leave(name, "i1")
    play.wait(5)
    assert kept_shards(play) == []
    assert play.state.groups["g"].shards == {}


def test_the_assignment_of_a_member_is_cut_too_and_ends_with_the_member(monkeypatch):
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 60)
    monkeypatch.setattr(cutting, "RUN_PARTITIONS", 4)
    play = started("m0", "m1")
    assert {key[0] for key in kept_shards(play)} == {"gs", "ms"}
    play.restart()
    play.wait(5)
    assert len(play.plans) == 1
    assert not play.logged("member.evicted")
    assert play.owned() == {
        name: ",".join(map(str, range(first, MEMBERS, 2)))
        for first, name in enumerate(("m0", "m1"))
    }
    play.leave("m1", "i1")
    play.wait(5)
    assert {key[2] for key in kept_shards(play) if key[0] == "ms"} == {"m0"}


def test_an_assignment_that_lacks_a_shard_counts_as_lost_and_frees_nothing_at_once(monkeypatch):
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 60)
    play = started("m0", "m1")
    play.written = [(k, r) for k, r in play.written if r.key != ("ms", "g", "m0", "i1", 0)]
    play.restart()
    play.wait(5)
    assert ["m", "g", "m0", "i1"] in [lost["key"] for lost in play.logged("record.incomplete")]
    assert [gone["instance"] for gone in play.logged("member.evicted")] == ["m0"]
    (kept,) = [record for record in play.members.values() if record.instance == "m1"]
    assert set(kept.owned["t"]) == set(range(1, MEMBERS, 2))
