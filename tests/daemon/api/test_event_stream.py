"""A stream of events by a clock of its own: when it writes, and how it goes on after a stall."""

import asyncio
import json
from itertools import pairwise
from types import SimpleNamespace

import pytest

from levelwind.assignors.protocol.records import BrokerRecord
from levelwind.daemon.api import event_stream
from levelwind.daemon.api.event_stream import (
    INTERVAL_SECONDS,
    KEEP_ALIVE_SECONDS,
    EventStreams,
)
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.api.views.record_tap import RecordTap
from levelwind.daemon.kafka.topic_reader import ConsumedRecord
from levelwind_testing import records


class ScriptedStream:
    """A stream whose pauses, and whose reader's stalls, take the time of a scripted clock."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.cost = 0.0
        self.renewed = []
        self.tap = RecordTap()
        self.streams = EventStreams(LiveView(self.tap), self.status, self.note)
        monkeypatch.setattr(event_stream, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(self.streams, "_pause", self.pause)

    def status(self):
        """The daemon's status, which costs time to make."""
        self.now += self.cost
        return {"role": "leader"}

    def note(self):
        self.renewed.append(self.now)

    async def pause(self, seconds):
        self.now += seconds

    def change(self, lag):
        record = records.lag(lag)
        self.tap.on_record(
            ConsumedRecord(kind="lag", record=record, partition=0, offset=lag, timestamp=1)
        )

    def run(self, reader):
        asyncio.run(reader(self.streams.stream()))


@pytest.fixture
def stream(monkeypatch):
    return ScriptedStream(monkeypatch)


def lag_of(event):
    _, _, data = event.decode().partition("data: ")
    return [line["lag"] for line in json.loads(data)["groups"]]


def test_a_reader_that_stood_still_gets_the_next_change_at_once(stream):
    async def reader(events):
        stream.change(1)
        await anext(events)  # the status
        assert lag_of(await anext(events)) == [1]
        stream.now += 600  # the reader's machine sleeps, and the write waits
        stream.change(2)
        resumed = stream.now
        assert lag_of(await anext(events)) == [2]
        assert stream.now - resumed == INTERVAL_SECONDS

    stream.run(reader)


def test_a_broker_changes_the_lines_alone_that_say_something_else(stream):
    async def reader(events):
        stream.change(1)
        await anext(events)
        await anext(events)
        broker = BrokerRecord(broker=1, at=1, rack="a", online=True)
        stream.tap.on_record(
            ConsumedRecord(kind="metadata", record=broker, partition=0, offset=9, timestamp=1)
        )
        assert lag_of(await anext(events)) == []

    stream.run(reader)


@pytest.mark.parametrize("cost", [0.5, 2.0, 30.0])
def test_costly_events_starve_neither_the_keep_alive_nor_the_mark_of_watchers(stream, cost):
    async def reader(events):
        stream.cost = cost
        written = [stream.now]
        for number in range(20):
            stream.change(number)
            await anext(events)
            written.append(stream.now)
        silences = [after - before for before, after in pairwise(written)]
        assert max(silences) <= KEEP_ALIVE_SECONDS + INTERVAL_SECONDS + cost

    stream.run(reader)
    between = [later - earlier for earlier, later in pairwise(stream.renewed)]
    assert max(between) <= INTERVAL_SECONDS + cost


def test_a_stream_without_news_has_a_byte_now_and_then(stream):
    async def reader(events):
        await anext(events)
        await anext(events)
        begun = stream.now
        for number in range(1, 4):
            assert await anext(events) == b": still open\n\n"
            assert stream.now - begun == number * KEEP_ALIVE_SECONDS

    stream.run(reader)
