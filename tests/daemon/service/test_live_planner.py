"""The planner's steps with a control and a publisher that are scripted."""

import threading

import pytest

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol.records import OperatorRecord, PlannerRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.audit.decision_draft import DecisionDraft
from levelwind.daemon.control.boundary.control_effects import Audit, FenceCommits, Fenced, Publish
from levelwind.daemon.control.boundary.control_events import Recovered, Ticked
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.kafka.publisher import UnpublishableError
from levelwind.daemon.service import live_planner as service
from levelwind.daemon.service.live_planner import Planner
from levelwind.daemon.shutdown import AnyEvent
from levelwind_testing.control.play import control_state

TOPICS = Topics()
PLANNER = PlannerRecord(planner_epoch=7, instance="another", started_at=1)
REQUEST = OperatorRecord(group="g", at=1, by="me", action="rebalance", reason="")
LEADING = LogEvent("daemon.leading", {"planner_epoch": 1, "groups": 0})


class Parts:
    """A planner of parts that note what is asked of them, in one list."""

    def __init__(self, monkeypatch):
        self.done, self.handled, self.effects = [], [], []
        self.failures = 0
        self.stop = threading.Event()
        monkeypatch.setattr(service, "step", self._step)
        monkeypatch.setattr(service, "log", self)
        settings = load(overrides={"bootstrap": "nowhere:1"})
        state = control_state(settings)
        self.partitions = {TOPICS.assignments: 3, TOPICS.control: 1}
        over = AnyEvent(self.stop)
        fence = self.fence_commits
        self.given_up = False
        self.planner = Planner(
            state,
            TOPICS,
            self.partitions,
            self,
            fence,
            self,
            over,
            given_up=lambda _: self.given_up,
        )

    def _step(self, state, event, clock):
        self.handled.append(event)
        self.clock = clock
        return state, self.effects

    def publish(self, records):
        if self.failures:
            self.failures -= 1
            raise ClusterUnavailableError("no answer")
        self.done.append(("publish", [(record.topic, record.partition) for record in records]))

    def fence_commits(self, effect):
        self.done.append(("fence", effect.transactional_id))

    def on_log_event(self, event, _fields):
        self.done.append(("count", event))

    def __getattr__(self, level):
        return lambda event, **_: self.done.append((level, event))


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


def test_nothing_is_handled_before_the_topics_have_been_read(parts):
    parts.planner.handle(Ticked())
    assert parts.handled == []
    assert not parts.planner.leading
    parts.planner.handle(Recovered(records=()))
    parts.planner.handle(Ticked())
    recovered, ticked = parts.handled
    assert recovered == Recovered(records=())
    assert isinstance(ticked, Ticked)
    assert ticked.budget.plans >= 1
    assert parts.planner.leading


def test_effects_are_performed_in_their_order(parts):
    fence = FenceCommits(group="g", incarnation=Incarnation("i", "1"), transactional_id="an-id")
    parts.effects = [
        Publish(records=(("assignments", PLANNER), ("control", REQUEST))),
        fence,
        LEADING,
    ]
    parts.planner.handle(Recovered(records=()))
    everywhere = [(TOPICS.assignments, number) for number in range(3)]
    assert parts.done == [
        ("publish", [*everywhere, (TOPICS.control, 0)]),
        ("fence", "an-id"),
        ("count", "daemon.leading"),
        ("info", "daemon.leading"),
    ]


def test_decisions_are_timed_by_the_clock_that_sleep_does_not_stop(parts, monkeypatch):
    monkeypatch.setattr(service, "boot_seconds", lambda: 12.5)
    parts.planner.handle(Recovered(records=()))
    assert parts.clock.now == 12.5


@pytest.mark.slow
def test_publishing_is_tried_until_it_succeeds_and_nothing_is_logged_before(parts):
    parts.failures = 1
    parts.effects = [Publish(records=(("control", REQUEST),)), LEADING]
    parts.planner.handle(Recovered(records=()))
    assert [name for name, *_ in parts.done] == ["warning", "publish", "count", "info"]
    assert parts.done[0] == ("warning", "publisher.retrying")


def test_a_planner_whose_time_is_over_performs_no_further_effect(parts):
    parts.stop.set()
    parts.effects = [LEADING]
    parts.planner.handle(Recovered(records=()))
    assert parts.done == []


def test_a_publication_that_does_not_end_is_left_when_the_time_is_over(parts, monkeypatch):
    def unanswered(_records):
        parts.stop.set()
        raise ClusterUnavailableError("no answer")

    monkeypatch.setattr(parts, "publish", unanswered)
    parts.effects = [Publish(records=(("control", REQUEST),)), LEADING]
    parts.planner.handle(Recovered(records=()))
    assert parts.done[-1] == ("warning", "publisher.transaction_left_open")


def test_a_publication_that_is_given_up_is_left_to_another_planner(parts):
    parts.failures, parts.given_up = 1, True
    parts.effects = [Publish(records=(("control", REQUEST),)), LEADING]
    with pytest.raises(ClusterUnavailableError, match="no answer"):
        parts.planner.handle(Recovered(records=()))
    assert parts.done == []


def test_a_higher_epoch_of_another_planner_fences_this_one(parts):
    parts.effects = [Fenced(planner=PLANNER)]
    with pytest.raises(FencedError, match=r"another daemon, another, plans .* since its epoch 7"):
        parts.planner.handle(Recovered(records=()))


def an_entry():
    return DecisionDraft(
        group="g", outcome="suppressed", cause="skew", at=1, planner_epoch=1, reason="cooling down"
    )


def test_an_entry_of_the_audit_trail_is_in_the_transaction_of_its_plan(parts):
    parts.partitions[TOPICS.decisions] = 1
    parts.effects = [Publish(records=(("control", REQUEST),), drafts=(an_entry(),)), LEADING]
    parts.planner.handle(Recovered(records=()))
    assert parts.done[0] == ("publish", [(TOPICS.control, 0), (TOPICS.decisions, 0)])


def test_a_decision_without_records_is_written_by_itself(parts):
    parts.partitions[TOPICS.decisions] = 1
    parts.effects = [Audit(group="g", drafts=(an_entry(),))]
    parts.planner.handle(Recovered(records=()))
    assert parts.done == [("publish", [(TOPICS.decisions, 0)])]


def test_no_plan_waits_for_an_entry_that_is_refused(parts, monkeypatch):
    parts.partitions[TOPICS.decisions] = 1
    publish = parts.publish

    def refuse(records):
        if any(record.topic == TOPICS.decisions for record in records):
            raise UnpublishableError("too large")
        publish(records)

    monkeypatch.setattr(parts, "publish", refuse)
    parts.effects = [Publish(records=(("control", REQUEST),), drafts=(an_entry(),)), LEADING]
    parts.planner.handle(Recovered(records=()))
    assert [entry[:2] for entry in parts.done[:2]] == [
        ("error", "decision.unrecorded"),
        ("publish", [(TOPICS.control, 0)]),
    ]
