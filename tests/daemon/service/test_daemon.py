"""The daemon's loop with a control and a publisher that are scripted."""

import threading

import pytest

from assignors.protocol.records import OperatorRecord, PlannerRecord
from assignors.protocol.topics import Topics
from daemon.config.settings import load
from daemon.control.context import LogEvent
from daemon.control.controller import Fenced, MembersRead, Publish, ReaderStatus, Recovered, Ticked
from daemon.errors import ClusterUnavailableError, FencedError
from daemon.service import daemon as service
from daemon.service.daemon import Daemon
from daemon.service.mailbox import Mailbox

TOPICS = Topics()
PLANNER = PlannerRecord(planner_epoch=7, instance="another", started_at=1)
REQUEST = OperatorRecord(group="g", at=1, by="me", action="rebalance", reason="")
LEADING = LogEvent("daemon.leading", {"planner_epoch": 1, "groups": 0})


class Parts:
    """A daemon of parts that note what is asked of them, in one list."""

    def __init__(self, monkeypatch):
        self.done, self.handled, self.effects = [], [], []
        self.failures = 0
        self.stop = threading.Event()
        self.mailbox = Mailbox()
        monkeypatch.setattr(service, "step", self._step)
        monkeypatch.setattr(service, "log", self)
        monkeypatch.setattr(service, "TICK_SECONDS", 0.01)
        self.daemon = Daemon(
            load(overrides={"bootstrap": "nowhere:1"}),
            {TOPICS.assignments: 3, TOPICS.control: 1, TOPICS.members: 1},
            self.mailbox,
            self,
            self,
            self,
            self.stop,
        )

    def _step(self, state, event, _clock):
        self.handled.append(event)
        if isinstance(event, Ticked):
            self.stop.set()
        return state, self.effects

    def publish(self, records):
        if self.failures:
            self.failures -= 1
            raise ClusterUnavailableError("no answer")
        self.done.append(("publish", [(record.topic, record.partition) for record in records]))

    def watch(self, _now):
        self.done.append(("watch",))

    def on_log_event(self, event, _fields):
        self.done.append(("count", event))

    def __getattr__(self, level):
        return lambda event, **_: self.done.append((level, event))


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


def test_nothing_is_handled_before_the_topics_have_been_read(parts):
    for event in (ReaderStatus(reading=False), Ticked()):
        parts.daemon.handle(event)
    assert parts.handled == []
    assert parts.daemon.leading_state() is None
    parts.daemon.handle(Recovered(records=()))
    parts.daemon.handle(ReaderStatus(reading=False))
    assert parts.handled == [Recovered(records=()), ReaderStatus(reading=False)]
    assert parts.daemon.leading_state() is not None


def test_effects_are_performed_in_their_order(parts):
    parts.effects = [
        Publish(records=(("assignments", PLANNER), ("control", REQUEST))),
        LEADING,
    ]
    parts.daemon.handle(Recovered(records=()))
    everywhere = [(TOPICS.assignments, number) for number in range(3)]
    assert parts.done == [
        ("publish", [*everywhere, (TOPICS.control, 0)]),
        ("count", "daemon.leading"),
        ("info", "daemon.leading"),
    ]


def test_publishing_is_tried_until_it_succeeds_and_nothing_is_logged_before(parts):
    parts.failures = 1
    parts.effects = [Publish(records=(("control", REQUEST),)), LEADING]
    parts.daemon.handle(Recovered(records=()))
    assert [name for name, *_ in parts.done] == ["warning", "publish", "count", "info"]
    assert parts.done[0] == ("warning", "publisher.retrying")


def test_a_daemon_that_is_asked_to_stop_performs_no_further_effect(parts):
    parts.stop.set()
    parts.effects = [LEADING]
    parts.daemon.handle(Recovered(records=()))
    assert parts.done == []


def test_a_publication_that_does_not_end_is_left_when_the_daemon_is_asked_to_stop(parts):
    parts.failures = 1_000
    parts.effects = [Publish(records=(("control", REQUEST),)), LEADING]
    threading.Timer(0.2, parts.stop.set).start()
    parts.daemon.handle(Recovered(records=()))
    assert parts.done[-1] == ("warning", "publisher.transaction_left_open")


def test_a_higher_epoch_of_another_planner_ends_the_daemon(parts):
    parts.effects = [Fenced(planner=PLANNER)]
    with pytest.raises(FencedError, match=r"another daemon, another, plans .* since its epoch 7"):
        parts.daemon.handle(Recovered(records=()))


def test_a_tick_follows_once_every_event_was_handled(parts):
    parts.mailbox.put("recovered", Recovered(records=()))
    parts.mailbox.put("status", ReaderStatus(reading=True))
    parts.daemon.loop()
    handled = [event for event in parts.handled if not isinstance(event, MembersRead)]
    assert handled == [Recovered(records=()), ReaderStatus(reading=True), Ticked()]
    assert parts.done == [("watch",)]


def test_an_error_in_the_mailbox_ends_the_loop(parts):
    parts.mailbox.put("crash", RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        parts.daemon.loop()
