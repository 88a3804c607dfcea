"""Records of any kind that were changed at random: what `decode` takes harms nobody.

A foreign or a faulty writer can put anything into levelwind's topics. A record that is refused is
counted and kept. One that is taken goes through whole turns of the control here, as it runs and as
it starts on what the topics hold, under a strategy that reads lag and one that reads racks, too.
And it is shown: in the documents of groups and brokers, the rows of the command line, the metrics.
"""

import json
import os
from collections import Counter
from random import Random

import pytest

from levelwind.assignors.protocol.records import LagRecord, Rejection, Tombstone, decode, encode
from levelwind.assignors.protocol.unread_lag import left_unread
from levelwind.daemon.api import wire_models as models
from levelwind.daemon.api.views.cluster_documents import cluster_document
from levelwind.daemon.api.views.encoded_documents import encoded
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.api.views.record_tap import RecordTap
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.kafka.topic_reader import ConsumedRecord
from levelwind.daemon.service.metrics import families
from levelwind.daemon.shown_groups.group_documents import group_document
from levelwind.daemon.shown_groups.offset_rows import offset_rows, offset_table
from levelwind.daemon.shown_groups.partition_rows import partition_rows
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing.control.play import Play
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.foreign_records import ForeignRecords
from levelwind_testing.records import lag, member, topic

QUICK, ALL = 3_000, int(os.environ.get("RECORDS_OF_A_KIND", "20000"))
"""Records of all kinds in `make test`, and of each kind in `make soak`."""
IN_ONE_LIFE = 200
"""Records that one control takes in before another one starts on what they made."""
MOST_IN_A_TURN = 8
QUICK_SHOWN = 1_000

quick_or_all = pytest.mark.parametrize(
    "of_each_kind",
    [False, pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(4 * 3600)])],
    ids=["quick", "all"],
)


def life(strategy):
    """A group with members, racks and lag."""
    play = Play(strategy=strategy)
    play.start(topic("t", (("a",), ("b",), ("a", "b"), ())), topic("u", ((), ())))
    at = round(play.now * 1000)
    play.receive("lag", lag(60_000, 0, 50_000, 0, at=at))
    play.join(member("m0", rack="a"), member("m1", rack="b"))
    play.wait(3)
    return play


def give(play, message):
    """Feed the control a record as the daemon would; whether it was one that can be read."""
    record = message.read()
    if record is None:
        return False
    if isinstance(record, LagRecord):
        play._read(message.topic, left_unread(record.group, record.topic, message.value))
    play._read(message.topic, record)
    return True


@pytest.mark.slow
@quick_or_all
@pytest.mark.parametrize("strategy", ["lag", "optimal"])
def test_what_is_taken_can_be_planned_with(strategy, of_each_kind):
    draw = Random(drawn_seed(11))
    foreign = ForeignRecords(draw, life("lag").written)
    kinds = sorted(foreign.kinds)
    lives = (ALL * len(kinds) if of_each_kind else QUICK) // IN_ONE_LIFE
    drawn, taken = Counter(), Counter()
    for _ in range(lives):
        play, kept = life(strategy), []
        for _ in range(IN_ONE_LIFE):
            kind = draw.choice(kinds)
            message = foreign.of(kind)
            drawn[kind] += 1
            if give(play, message):
                taken[kind] += 1
                kept.append(message)
            if draw.randrange(MOST_IN_A_TURN) == 0:
                play.wait(0.5)
                assert not play.logged("plan.failed"), kept
        play.wait(70)
        assert not play.logged("plan.failed"), kept
        list(families(facts_about(play.state), play.now))
        for topic_kind, record in play.published:
            if not isinstance(record, Tombstone):
                read = decode(topic_kind, *encode(record))
                assert not isinstance(read, Rejection), (read, kept)
        play.restart()
        play.wait(70)
        assert not play.logged("plan.failed"), kept
    print(f"drawn and taken: { ({kind: (drawn[kind], taken[kind]) for kind in kinds}) }")
    assert taken.keys() == set(kinds)
    assert taken.total() > drawn.total() // 5


@pytest.mark.slow
@quick_or_all
def test_what_is_taken_can_be_shown(of_each_kind):
    draw = Random(drawn_seed(12))
    foreign = ForeignRecords(draw, life("lag").written)
    kinds = sorted(foreign.kinds)
    taken = Counter()
    for number in range((ALL * len(kinds)) if of_each_kind else QUICK_SHOWN):
        if number % IN_ONE_LIFE == 0:
            tap = RecordTap()
            view, kept = LiveView(tap), []
            for message in foreign.good:
                show(tap, message)
        kind = draw.choice(kinds)
        message = foreign.of(kind)
        if not show(tap, message):
            continue
        taken[kind] += 1
        kept.append(message)
        view.refresh()
        try:
            every_document(view)
        except Exception as error:
            error.add_note(f"after {kept}")
            raise
    assert taken.keys() == set(kinds)


def show(tap, message):
    """Hand a record on to what is shown; whether it was one that can be read."""
    record = message.read()
    if record is not None:
        tap.on_record(
            ConsumedRecord(kind=message.topic, record=record, partition=0, offset=1, timestamp=1)
        )
    return record is not None


def every_document(view):
    """Make all that is shown of a view; each document must be what its model promises."""
    for name, records in view.groups.items():
        shown = ShownGroup(records)
        models.GroupSummary.model_validate(view.summary(name), strict=True)
        document = {**group_document(shown), "members_wanted": None}
        models.GroupDocument.model_validate(document, strict=True)
        json.loads(encoded(document))
        rows = list(offset_rows(shown))
        offsets = {"offsets": [row._asdict() for row in rows]}
        models.OffsetList.model_validate(offsets, strict=True)
        json.dumps(offsets, allow_nan=False)
        offset_table(rows, {})
        partition_rows(shown)
    cluster = cluster_document(view)
    models.ClusterDocument.model_validate(cluster, strict=True)
    json.dumps(cluster, allow_nan=False)
