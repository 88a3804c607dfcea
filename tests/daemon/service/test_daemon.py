"""The daemon's loop: who leads, with terms, marks and a log that are scripted."""

import threading
import time
from dataclasses import asdict
from itertools import count
from types import SimpleNamespace

import pytest

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.protocol.records import CanaryRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.boundary.control_events import (
    MembersRead,
    Recovered,
    SettingsChanged,
    Ticked,
)
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.service import daemon as service
from levelwind.daemon.service.daemon import Daemon
from levelwind.daemon.service.leadership import LeadChanged, LeaderSighted, ReadUntil, TopicsRead
from levelwind.daemon.service.mailbox import Mailbox
from levelwind.daemon.shutdown import AnyEvent
from levelwind_testing.control.play import control_state

TOPICS = Topics()
MARK = MembersRead(partition=0, asked_at=1.0)
TICKS = 5
"""Ticks of a run after its last event."""


def sighted(number, *, epoch=7, state="leading"):
    return LeaderSighted(
        canary=CanaryRecord(planner_epoch=epoch, instance="another", number=number, state=state)
    )


class ScriptedTerm:
    """A term that notes what is asked of it in a list of the test."""

    def __init__(self, state, done):
        self.done = done
        self.facts = None
        facts = SimpleNamespace(get=lambda _: self.facts)
        self.planner = SimpleNamespace(state=state, leading=False, handle=self._handle, facts=facts)
        self.fenced = False
        self.fenced_reason = ""
        self.written = {}

    def written_canaries(self):
        return self.written

    def begin(self):
        self.done.append("begin")
        return True

    def start_canaries(self):
        self.done.append("canaries")

    def start_proxy(self):
        self.done.append("proxy")

    def lead_in(self, planner_epoch):
        self.done.append(("lead in", planner_epoch))

    def bid_farewell(self):
        self.done.append("farewell")

    def end(self, *, farewell):
        self.done.append("farewell" if farewell else "end")

    def _handle(self, event):
        if self.fenced:
            raise FencedError("fenced")
        if isinstance(event, Recovered):
            self.planner.leading = True
            epoch = self.planner.state.planner_epoch + 1
            self.planner.state = SimpleNamespace(planner_epoch=epoch)
            self.facts = self.planner.state
        self.done.append(event)


class ScriptedLead:
    """A membership in the group of daemons, which gives it the lead from the start."""

    def __init__(self, done):
        self.done = done
        self.granted = True
        self.joined = False

    def join(self):
        if not self.joined:
            self.joined = True
            self.done.append("joined")

    def leave(self):
        if self.joined:
            self.joined = False
            self.done.append("left")


class ScriptedHost:
    """A host of the pipeline that notes when it is asked to look, as at each tick."""

    def __init__(self, done):
        self.done = done
        self.looks = []
        self.on_look = lambda: None

    def look(self, _now, **about):
        self.looks.append(about)
        self.done.append("watch")
        self.on_look()

    def ask_to_stop(self):
        self.done.append("pipeline stops")


class Parts:
    """A daemon of parts that note what is asked of them."""

    def __init__(self, monkeypatch, **options):
        self.done, self.logged, self.terms = [], [], []
        self.unanswered = 0
        self.stop = threading.Event()
        self.mailbox = Mailbox()
        self.refused = None
        monkeypatch.setattr(service, "log", self)
        monkeypatch.setattr(service, "TICK_SECONDS", 0.01)
        settings = load(overrides={"bootstrap": "nowhere:1"})
        state = control_state(settings)
        over = AnyEvent(self.stop)
        self.lead = ScriptedLead(self.done)
        self.host = ScriptedHost(self.done)
        self.daemon = Daemon(
            settings,
            state,
            self.mailbox,
            self,
            self._make_term,
            self.lead,
            self.host,
            over,
            **options,
        )

    def _make_term(self, state):
        term = ScriptedTerm(state, self.done)
        if self.refused is not None:
            term.begin = self._refuse
        self.terms.append(term)
        return term

    def _refuse(self):
        raise self.refused

    def ask(self):
        self._answer("asked")

    def recover(self):
        self._answer("recover")

    def _answer(self, what):
        if self.unanswered:
            self.unanswered -= 1
            raise ClusterUnavailableError("no answer")
        self.done.append(what)

    def __getattr__(self, level):
        return lambda event, **fields: self.logged.append((event, fields))

    def run(self, *events):
        """Let the loop handle events, and tick a few times after the last."""
        if self.lead.granted and not self.lead.joined:
            self.mailbox.put("lead", LeadChanged(owns=True))
        for number, event in enumerate(events):
            self.mailbox.put(number, event)
        ticks = count(1)

        def on_look():
            if not self.mailbox.waiting and next(ticks) == TICKS:
                self.stop.set()

        self.host.on_look = on_look
        self.daemon.loop()
        self.stop.clear()
        return self

    @property
    def events(self):
        return [event for event, _ in self.logged]

    @property
    def term_done(self):
        """What was done but for the watch over the pipeline and the lead."""
        return [what for what in self.done if what not in ("watch", "joined", "asked")]


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


def test_the_only_daemon_leads_as_soon_as_it_has_read_its_topics(parts):
    parts.run(TopicsRead())
    assert parts.term_done[:2] == ["begin", "recover"]
    assert parts.host.looks[-1] == {"leading": True, "stopped": None}
    assert parts.events == ["daemon.taking_over"]
    assert parts.daemon.leading_facts() is None
    parts.done.clear()
    parts.run(Recovered(records=()), MARK)
    assert parts.term_done[:4] == [Recovered(records=()), "canaries", "proxy", MARK]
    assert parts.daemon.leading_facts() is parts.terms[0].planner.state


def test_a_daemon_stands_by_while_another_leads_and_asks_how_far_it_has_read(parts, monkeypatch):
    parts.daemon._interval = 0.01
    parts.lead.granted = False
    parts.run(sighted(1), TopicsRead(), sighted(2))
    assert parts.lead.joined
    assert "asked" in parts.done
    assert parts.terms == []
    assert parts.logged == [
        ("daemon.standing_by", {"leader": "another", "planner_epoch": 7, "takeover": 6.0})
    ]
    parts.run(MARK)  # of a term that is over
    assert MARK not in parts.done


def test_a_standby_takes_over_at_once_when_the_group_gives_it_the_lead(parts):
    parts.lead.granted = False
    parts.run(sighted(1), TopicsRead(), sighted(2, state="stopped"))
    assert parts.terms == []
    parts.run(LeadChanged(owns=True), sighted(1))  # a late canary of the one before
    assert parts.terms[0].planner.state.planner_epoch == 7  # and leads in a higher one
    assert "begin" in parts.done
    assert {"leading": True, "stopped": "another"} in parts.host.looks


def test_a_leader_that_loses_the_lead_alone_goes_on(parts):
    """The brokers may have lost the group: only who is fenced has a successor."""
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    parts.run(LeadChanged(owns=False))
    assert parts.daemon.leading_facts() is not None
    parts.run(LeadChanged(owns=True))
    assert len(parts.terms) == 1


def test_a_fenced_daemon_ends_its_term_and_stands_by(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    parts.terms[0].fenced = True
    parts.run(Ticked())
    assert parts.term_done[-1] == "end"
    assert "end" in parts.done
    assert "farewell" not in parts.done
    assert parts.events[-2:] == ["daemon.deposed", "daemon.standing_by"]
    assert parts.daemon.leading_facts() is None
    assert len(parts.terms) == 1  # it knows no other daemon, and waits all the same


def test_a_term_ends_with_a_part_of_it_that_lost_its_transactional_id(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    parts.terms[0].fenced_reason = "the brokers gave the id up"
    parts.run(Ticked())
    assert parts.term_done[-1] == "end"
    assert parts.events[-2:] == ["daemon.deposed", "daemon.standing_by"]


def test_a_daemon_that_reads_a_canary_of_a_higher_epoch_stands_by(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    parts.run(sighted(1, epoch=9))
    assert "end" in parts.done
    assert parts.events[-2:] == ["daemon.deposed", "daemon.standing_by"]


def test_a_daemon_leads_again_once_its_successor_has_stopped(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    parts.run(sighted(1, epoch=9))
    parts.run(sighted(2, epoch=9, state="stopped"))
    assert len(parts.terms) == 2
    assert parts.terms[1].planner.state.planner_epoch == 9
    parts.run(Recovered(records=()))
    assert parts.daemon.leading_facts() is not None


def test_an_answer_to_a_former_terms_question_begins_no_term(parts):
    """Another planner may have published since: who leads with it would not know all owners."""
    parts.run(TopicsRead())
    asked_at = boot_seconds()
    parts.terms[0].fenced_reason = "the brokers gave the id up"
    parts.run()
    parts.run(LeadChanged(owns=True))
    assert len(parts.terms) == 2
    parts.run(Recovered(records=(), asked_at=asked_at))
    assert parts.daemon.leading_facts() is None
    parts.run(Recovered(records=(), asked_at=boot_seconds()))
    assert parts.daemon.leading_facts() is not None
    assert parts.done.count("canaries") == parts.done.count("proxy") == 1


def test_the_canaries_follow_the_planner_into_a_higher_epoch(parts):
    """A member that knew a higher epoch makes the planner go over to one above it."""
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    planner = parts.terms[0].planner
    planner.handle = lambda _: setattr(planner, "state", SimpleNamespace(planner_epoch=40))
    parts.run(MARK)
    assert parts.done.count(("lead in", 40)) == 1
    parts.run(sighted(1, epoch=9))
    assert "end" not in parts.done


def test_an_end_hands_over_but_an_end_before_leading_says_no_farewell(parts):
    parts.run(TopicsRead())
    parts.daemon.close()
    assert parts.done[-3:] == ["left", "pipeline stops", "end"]
    parts.daemon.close()
    assert parts.done.count("end") == 1
    assert "farewell" not in parts.done


def test_a_leader_that_stops_says_farewell_and_leaves_before_anything_else_ends(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    parts.daemon.close()
    assert parts.done[-4:] == ["farewell", "left", "pipeline stops", "end"]


def test_what_the_topics_hold_is_asked_for_until_there_is_an_answer(parts):
    parts.unanswered = 2
    parts.run(TopicsRead())
    assert parts.done.count("recover") == 1


def test_a_start_that_cannot_publish_ends_the_daemon(parts):
    parts.refused = ClusterUnavailableError("no right to publish")
    with pytest.raises(ClusterUnavailableError, match="no right"):
        parts.run(TopicsRead())


def test_a_standby_that_cannot_take_over_stands_by_on(parts):
    parts.refused = ClusterUnavailableError("no answer")
    parts.lead.granted = False
    parts.run(sighted(1), TopicsRead(), sighted(2, state="stopped"))
    parts.run(LeadChanged(owns=True))
    events = ["daemon.deposed", "daemon.standing_by", "daemon.lead_given_up"]
    assert parts.events[-3:] == events
    assert "left" in parts.done, "another daemon is to be chosen"
    parts.run(ReadUntil(asked_at=1.0))
    assert len(parts.terms) == 1
    assert parts.lead.joined


def test_a_standby_that_cannot_read_leaves_the_group_until_it_can(parts):
    parts.lead.granted = False
    parts.run(sighted(1), TopicsRead())
    read_at = parts.daemon._read_at
    parts.daemon.tick(read_at + 14)
    assert parts.lead.joined
    parts.daemon.tick(read_at + 16)
    assert not parts.lead.joined
    assert parts.events[-1] == "daemon.lead_given_up"
    parts.daemon.handle(ReadUntil(asked_at=1.0))
    assert parts.lead.joined


def test_a_standby_joins_the_group_anew_where_nobody_is_given_the_lead(parts):
    parts.lead.granted = False
    parts.run(TopicsRead())
    for second in range(17):
        assert parts.lead.joined
        parts.daemon.handle(ReadUntil(asked_at=float(second)))
        parts.daemon.tick(time.monotonic())
    assert not parts.lead.joined
    assert parts.logged[-1] == ("daemon.lead_given_up", {"reason": "nobody has it"})
    parts.daemon.handle(ReadUntil(asked_at=17.0))
    assert parts.lead.joined


def test_a_daemon_that_takes_over_and_cannot_read_gives_the_lead_up(parts):
    parts.run(TopicsRead())
    assert parts.daemon.leading_facts() is None
    parts.daemon.tick(time.monotonic() + 16)
    assert "left" in parts.done
    assert parts.events[-3:] == ["daemon.deposed", "daemon.standing_by", "daemon.lead_given_up"]


def test_a_leader_that_cannot_publish_hands_over(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))

    def fail(_):
        raise ClusterUnavailableError("no answer of broker 2")

    parts.terms[0].planner.handle = fail
    parts.run(MARK)
    assert parts.term_done[-2:] == ["farewell", "left"]
    assert parts.events[-3:] == ["daemon.deposed", "daemon.standing_by", "daemon.lead_given_up"]
    reasons = [fields["reason"] for event, fields in parts.logged if event == "daemon.deposed"]
    assert reasons == ["it cannot publish: no answer of broker 2"]
    parts.run(ReadUntil(asked_at=1.0))
    assert parts.lead.joined


def test_a_take_over_that_takes_longer_than_the_patience_is_none_that_cannot_read(
    parts, monkeypatch
):
    def begin(_):
        parts.daemon._read_at -= 16  # as if so many seconds had passed
        return True

    monkeypatch.setattr(ScriptedTerm, "begin", begin)
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    assert parts.daemon.leading_facts() is not None
    assert "daemon.deposed" not in parts.events


def test_settings_that_are_read_again_during_a_take_over_reach_the_planner(monkeypatch):
    settings = load(overrides={"bootstrap": "nowhere:1"})
    change = SettingsChanged(settings=settings.control, planning_of=settings.planning_of)
    changes = []
    parts = Parts(monkeypatch, changed_settings=lambda: changes.pop() if changes else None)
    parts.run(TopicsRead())
    changes.append(change)
    parts.run()
    assert change not in parts.done
    parts.run(Recovered(records=()))
    assert change in parts.done


def test_readiness_says_which_part_a_daemon_has(parts):
    assert asdict(parts.daemon.readiness()) == {
        "role": "starting",
        "caught_up": False,
        "instance": "me",
        "leader": None,
        "planner_epoch": None,
        "frozen": {},
        "frozen_groups": {},
    }
    parts.lead.granted = False
    parts.run(sighted(1), TopicsRead())
    standby = parts.daemon.readiness()
    assert (standby.role, standby.leader, standby.planner_epoch) == ("standby", "another", 7)
    assert standby.caught_up


def test_a_daemon_whose_topics_were_replaced_waits_for_the_leases_of_their_members(monkeypatch):
    monkeypatch.setattr(service, "boot_seconds", lambda: 100.0)
    parts = Parts(monkeypatch, lead_from=136.0)
    parts.run(TopicsRead())
    assert parts.terms == []
    monkeypatch.setattr(service, "boot_seconds", lambda: 136.5)
    parts.run()
    assert len(parts.terms) == 1


def test_the_pipeline_is_watched_and_a_tick_follows_once_every_event_was_handled(parts):
    parts.run(TopicsRead())
    parts.done.clear()
    parts.run(Recovered(records=()), MARK)
    expected = [Recovered(records=()), "canaries", "proxy", MARK, "watch", Ticked()]
    assert parts.done[: len(expected)] == expected


def test_an_error_in_the_mailbox_ends_the_loop(parts):
    with pytest.raises(RuntimeError, match="a bug"):
        parts.run(RuntimeError("a bug"))


def test_an_error_that_comes_while_an_effect_is_performed_ends_the_loop(parts):
    """A topic that is gone ends the attempts to publish into it, and then the round."""

    def handle(event):
        if isinstance(event, Ticked):
            parts.mailbox.put("replaced", RuntimeError("topics are gone"))
            parts.stop.set()

    parts.run(TopicsRead())
    parts.terms[0].planner.handle = handle
    with pytest.raises(RuntimeError, match="topics are gone"):
        parts.daemon.loop()


def test_a_leader_that_does_not_read_its_own_canaries_hands_over(parts):
    parts.run(TopicsRead())
    parts.run(Recovered(records=()))
    term = parts.terms[0]
    for second in range(15):
        term.written = {0: float(second), 1: float(second)}
        parts.daemon.tick(second)
        parts.daemon.handle(MembersRead(partition=1, asked_at=float(second)))
    assert parts.daemon.leading_facts() is not None
    term.written = {0: 15.0, 1: 15.0}
    parts.daemon.tick(15)
    assert parts.done[-2:] == ["farewell", "left"]  # another takes over at once
    assert parts.events[-4:] == [
        "daemon.reads_nothing",
        "daemon.deposed",
        "daemon.standing_by",
        "daemon.lead_given_up",
    ]
    assert parts.daemon.leading_facts() is None
    assert parts.logged[-4][1] == {"partition": 0, "seconds": 15.0}
