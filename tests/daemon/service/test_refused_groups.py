"""The planner with the real control, while records of one group cannot be published."""

import threading

import pytest

from levelwind.daemon.config.settings import load
from levelwind.daemon.control.boundary.control_events import RecordReceived, Recovered, Ticked
from levelwind.daemon.kafka.publisher import UnpublishableError
from levelwind.daemon.service import live_planner as service
from levelwind.daemon.service.live_planner import Planner
from levelwind.daemon.shutdown import AnyEvent
from levelwind_testing.control.play import control_state
from levelwind_testing.records import member, topic

LONE_SURROGATE = "\ud800"


class Parts:
    """What the planner is made of: a publisher that refuses texts, and a log."""

    def __init__(self, monkeypatch, refused=""):
        self.refused, self.published, self.logged = refused, [], []
        monkeypatch.setattr(service, "log", self)
        settings = load(overrides={"bootstrap": "nowhere:1"})
        partitions = {settings.topics.name(k): 4 for k in ("assignments", "members")}
        state = control_state(settings)
        topics, over = settings.topics, AnyEvent(threading.Event())
        self.planner = Planner(state, topics, partitions, self, self, self, over)
        self.planner.handle(Recovered(records=(("metadata", topic()),)))

    def publish(self, records):
        if self.refused and any(self.refused.encode() in record.key for record in records):
            raise UnpublishableError("a record of 9 bytes is refused")
        self.published += [record.key.decode() for record in records]

    def on_log_event(self, *_):
        pass

    def __getattr__(self, _level):
        return lambda event, **fields: self.logged.append((event, fields))

    def plan(self, *members):
        """Let members join, and let their plans become due."""
        for record in members:
            self.planner.handle(RecordReceived(kind="members", record=record))
        self.planner.handle(Ticked())


@pytest.fixture
def settled(monkeypatch):
    """Make time stand so that a plan is due a while after each joining."""
    times = iter(range(0, 10_000, 2))
    monkeypatch.setattr(service, "boot_seconds", lambda: float(next(times)))


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    ("refused", "bad"),
    [("", f"m{LONE_SURROGATE}"), ("large", "large")],
    ids=["unwritable", "refused"],
)
def test_a_group_whose_records_cannot_be_published_leaves_the_others_alone(
    monkeypatch, refused, bad
):
    parts = Parts(monkeypatch, refused)
    parts.plan(member(bad, group="bad"), member("m0", group="good"))
    assert '["g","good"]' in parts.published
    assert '["m","good","m0","i1"]' in parts.published
    assert not [key for key in parts.published if '"bad"' in key]
    refusals = [fields for event, fields in parts.logged if event == "group.publish_refused"]
    assert {refusal["group"] for refusal in refusals} == {"bad"}
    assert all(refusal["reason"] for refusal in refusals)
    assert [event for event, _ in parts.logged].count("plan.published") == 1
