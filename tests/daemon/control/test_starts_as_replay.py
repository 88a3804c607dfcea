"""A start believes of members what the control would believe that had read their records live.

A control reads announcements, follows them, and publishes. Then members go on while its decisions
stand still, and it reads the newest record of each: that is what it believes live. Another control
starts on what compaction leaves of the same topics. Both must believe the same of each life.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import Nack, Tombstone
from levelwind.daemon.control.state.control_state import Postponement
from levelwind_testing.control.play import TIMERS, Play
from levelwind_testing.examples import examples
from levelwind_testing.records import member, topic

INSTANCES = ("m0", "m1", "m2")
MOST_LIVES = 3
"""Lives of one instance in a story. A fourth within a minute could begin a conflict, which a start
does not know of."""
TOO_LONG_MS = 3_000_000
"""A lease that needs more than the longest wait before a grant."""

SUBSCRIPTIONS = (
    {"topics": ("t",)},
    {"topics": ("t", "u")},
    {"topics": (), "pattern": "^[tu]$"},
    {"topics": ("t",), "pattern": "^v"},
    {"topics": (), "pattern": "^(a"},
    {"topics": ("t",), "hold_ms": TOO_LONG_MS},
    {"topics": ("w",)},
)
"""Subscriptions of members: two of them are of members that no planner can serve, and the last is
to a topic whose layout is not known."""


@dataclass
class Story:
    """A control and its members, by choices that are numbers."""

    play: Play = field(default_factory=Play)
    lives: dict = field(default_factory=dict)
    """The last announcement of each life that ever was, by instance and incarnation."""
    touched: set = field(default_factory=set)
    """Lives with a record since decisions stand still."""
    failed: set = field(default_factory=set)
    """Instances that could not start partitions since then: what a life reported that is replaced
    is no news to a start."""
    evicted: set = field(default_factory=set)
    """Lives that were evicted before."""
    replaced: set = field(default_factory=set)
    """Lives that a later one has replaced since then: who of both lives, only the order in which
    they began would say."""

    def _remember(self):
        self.lives.update(self.play.members)

    def _announce(self, record):
        key = record.instance, record.incarnation
        self.lives[key] = record
        self.play.join(record)
        self._remember()

    def new_life(self, which, how, **more):
        """Begin a life of an instance, which replaces the one that is there."""
        instance = INSTANCES[which % len(INSTANCES)]
        before = [key for key in self.lives if key[0] == instance]
        if len(before) == MOST_LIVES or instance in self.failed:
            return
        fields = {**SUBSCRIPTIONS[how % len(SUBSCRIPTIONS)], **more}
        key = instance, f"i{len(before)}"
        self.replaced.update(before)
        self.touched.add(key)
        self._announce(member(instance, incarnation=key[1], max_poll_interval_ms=10_000, **fields))

    def life_that_claims(self, which, how):
        share = {"t": (how % 4,), "w": (how,)}
        self.new_life(which, how, owned=share, state="active", acked=3, planner_epoch=1)

    def life_of_a_lost_planner(self, which, how):
        self.new_life(which, how, state="active", acked=40, planner_epoch=9)

    # While decisions are made.

    def leave(self, which, _how):
        if key := self._any_live(which):
            self.play.leave(*key)

    def die(self, which, _how):
        if key := self._any_live(which):
            self.play.kill(*key)

    def fall_silent(self, which, how):
        if key := self._any_live(which):
            self.play.unresponsive.add(key)
            self.play.wait((1, 17)[how % 2])

    def restart(self, _which, _how):
        self.play.restart()

    def lay_out(self, which, how):
        """Let a topic come, go, or be made anew with other partitions."""
        name, count = ("t", "u", "v")[which % 3], (0, 2, 4, 6)[how % 4]
        gone = Tombstone(("topic", name))
        layout = topic(name, ((),) * count, topic_id="AB"[how % 2] * 22) if count else gone
        self.play.receive("metadata", layout)

    def pass_time(self, _which, how):
        self.play.wait((1, 4, 20, 60)[how % 4])

    def _any_live(self, which):
        keys = sorted(self.play.members)
        return keys[which % len(keys)] if keys else None

    # While decisions stand still.

    def stand_still(self):
        self.play.wait(3)
        self._remember()
        without_decisions(self.play)
        self.touched, self.replaced = set(), set()
        ended = {
            record.key[2:]
            for kind, record in self.play.written
            if kind == "assignments" and isinstance(record, Tombstone) and record.key[0] == "m"
        }
        group = self.play.state.groups.get("g")
        assume(group is not None and ended <= group.ledger.ended.keys())
        holdings = group.ledger.holdings.items()
        self.evicted = {incarnation for incarnation, holding in holdings if holding.evicted}

    def _next(self, which):
        """The last announcement of a life that has none yet since decisions stand still."""
        left = [
            key
            for key in sorted(self.lives)
            if key not in self.touched and (key not in self.replaced or key in self.evicted)
        ]
        if not left:
            return None
        self.touched.add(key := left[which % len(left)])
        return self.lives[key]

    def change(self, which, how):
        changes = (
            {},
            {"rack": "r"},
            {"capacity": 2.0},
            {"priority": 3},
            {"commit_ms": 20_000},
            {"transactional_id": "x/g/m0"},
            {"topics": ("u",)},
            {"topics": ("t",), "pattern": "^u"},
            {"topics": ("t",), "pattern": "^(a"},
            {"hold_ms": TOO_LONG_MS},
        )
        if record := self._next(which):
            key = Incarnation(record.instance, record.incarnation)
            # A start judges a refused member again.
            refused = key in self.play.state.groups["g"].refused
            self._announce(replace(record, **changes[how % (7 if refused else len(changes))]))

    def claim(self, which, how):
        if record := self._next(which):
            owned = {**record.owned, "u": (how % 4,), "w": (how,)}
            self._announce(replace(record, state="active", owned=owned))

    def give_up(self, which, _how):
        if record := self._next(which):
            self._announce(replace(record, state="active", owned={}))

    def start_nothing(self, which, _how):
        if record := self._next(which):
            self._announce(replace(record, starting=record.owned))

    def _newest_acked(self, record):
        """Whether a life has acknowledged the newest record about it."""
        key = Incarnation(record.instance, record.incarnation)
        holding = self.play.state.groups["g"].ledger.holdings.get(key)
        published = holding and holding.published
        return published is None or record.acked_epoch >= published.member_epoch

    def fail_to_start(self, which, how):
        if record := self._next(which):
            if not self._newest_acked(record):
                return  # it tries again when it reads the newest record
            kept = dict(sorted(record.owned.items())[: how % 2])
            nack = Nack(epoch=record.acked_epoch, code="start-failed")
            self.failed.add(record.instance)
            self._announce(replace(record, owned=kept, starting={}, nack=nack))

    def acknowledge_what_was_lost(self, which, _how):
        if record := self._next(which):
            self._announce(replace(record, acked_epoch=900, planner_epoch=9, owned={}))

    def say_farewell(self, which, how):
        if record := self._next(which):
            owned = ({}, record.owned)[how % 2]
            self._announce(replace(record, state="left", owned=owned, starting={}))

    def take_back(self, which, _how):
        if record := self._next(which):
            self.play.receive("members", Tombstone(record.key))


BEFORE = tuple(
    getattr(Story, name)
    for name in (
        "new_life",
        "life_that_claims",
        "life_of_a_lost_planner",
        "leave",
        "die",
        "fall_silent",
        "restart",
        "lay_out",
        "pass_time",
    )
)
MEANWHILE = tuple(
    getattr(Story, name)
    for name in (
        "new_life",
        "life_that_claims",
        "life_of_a_lost_planner",
        "change",
        "claim",
        "give_up",
        "start_nothing",
        "fail_to_start",
        "acknowledge_what_was_lost",
        "say_farewell",
        "take_back",
    )
)
CHOICE = st.integers(0, 11)


def without_decisions(play):
    """Let a control decide nothing for a second, as after its records were refused."""
    play.state = replace(play.state, postponed={"g": Postponement(pause=0.0, until=play.now + 1)})


def happenings(kinds, count):
    choices = st.tuples(st.sampled_from(kinds), CHOICE, CHOICE)
    return st.lists(choices, min_size=1, max_size=count)


def started(play):
    """A control that starts on what compaction leaves of a play's topics."""
    after = Play(now=play.now, members=dict(play.members))
    latest = {}
    for kind, record in play.written:
        latest.pop((kind, record.key), None)
        latest[kind, record.key] = record
    after.written = [(kind, record) for (kind, _), record in latest.items()]
    after.restart()
    without_decisions(after)
    return after


def believed(play):
    """What a control believes of the lives of the group."""
    group = play.state.groups.get("g")
    if group is None or not (group.live or group.refused or group.ledger.holdings):
        return {}
    holdings = {
        incarnation: (
            type(holding.standing).__name__,
            sorted(holding.granted),
            sorted(holding.revoking),
            None if holding.left else holding.waits,
        )
        for incarnation, holding in group.ledger.holdings.items()
    }
    return {
        "live": {incarnation: live.record for incarnation, live in group.live.items()},
        "refused": {incarnation: live.record for incarnation, live in group.refused.items()},
        "holdings": holdings,
        "bars": sorted(group.bars),
        # The share of a member that left is gone with its records, and whether a bar has an effect
        # depends on the members that are known when it begins.
        "shares": {
            incarnation: sorted(share)
            for incarnation, share in group.ledger.target.items()
            if group.ledger.holdings[incarnation].granted and not group.bars
        },
    }


LOGGED = ("member.evicted", "member.claimed", "grant.taken_back")


def logged(events):
    return sorted(
        (entry.event, entry.fields["instance"], entry.fields["incarnation"])
        for entry in events
        if entry.event in LOGGED
    )


def settled(play):
    """The live and the refused instances, and the partitions in use, some time later."""
    play.unresponsive.clear()
    group = play.state.groups.get("g")
    for key in sorted(play.members):
        if group is None or Incarnation(*key) not in {*group.live, *group.refused}:
            play._rejoin(*key)  # it has read its eviction before
    play.rejoining = True
    play.wait(TIMERS.dead_after + 2 * TIMERS.grant + 9, step=1.0)
    group = play.state.groups.get("g")
    return group and (
        {incarnation.instance for incarnation in group.live},
        {incarnation.instance for incarnation in group.refused},
        set(group.ledger.owners()),
    )


@settings(max_examples=examples(400), deadline=None)
@given(before=happenings(BEFORE, 6), meanwhile=happenings(MEANWHILE, 5))
def test_a_start_believes_of_each_life_what_its_newest_record_would_have_said_live(
    before, meanwhile
):
    story = Story()
    story.play.start(topic(), topic("u"))
    for happen, which, how in before:
        happen(story, which, how)
        story.play.wait(1)
    story.stand_still()
    logged_before = len(story.play.events)
    for happen, which, how in meanwhile:
        happen(story, which, how)
    after = started(story.play)
    assert believed(after) == believed(story.play)
    assert logged(after.events) == logged(story.play.events[logged_before:])
    assert after.state.planner_epoch > story.play.state.planner_epoch
    if story.play.state.groups["g"].records_lost_at is None:
        # Nobody but a daemon knows of a wait for members that no record names.
        assert settled(after) == settled(story.play)


@pytest.fixture
def play():
    """Two members with two partitions each of one topic."""
    play = Play()
    play.start(topic())
    play.join(member("m0"), member("m1"))
    play.wait(3)
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}
    return play


def test_what_a_member_could_not_start_while_no_daemon_ran_goes_to_another_one(play):
    play.stop()
    owned = play.members["m0", "i1"].owned
    nack = Nack(epoch=play.members["m0", "i1"].acked_epoch, code="start-failed")
    play.update("m0", "i1", owned={}, nack=nack)
    play.update("m1", "i1")
    play.restart()
    assert play.logged("grant.taken_back")[0]["partitions"] == ranges.texts(owned)
    assert list(play.state.groups["g"].bars) == [("m0", "t")]
    assert not play.state.groups["g"].target["m0"], "whichever member is read first"
    play.wait(9)
    assert play.owned() == {"m0": "", "m1": "0-3"}


def test_two_members_that_could_start_nothing_while_no_daemon_ran_are_both_served_on(play):
    """A bar has no effect where every other reader is barred too, whoever is read first."""
    play.stop()
    for key in (("m0", "i1"), ("m1", "i1")):
        nack = Nack(epoch=play.members[key].acked_epoch, code="start-failed")
        play.update(*key, owned={}, nack=nack)
    play.restart()
    play.wait(9)
    assert sorted(n for text in play.owned().values() for n in ranges.parse(text)) == [0, 1, 2, 3]


def test_a_life_that_has_ended_is_no_member_of_the_next_daemon(play):
    late = play.members["m1", "i1"]
    play.leave("m1", "i1")
    play.wait(9)
    play.stop()
    play.receive("members", replace(late, owned={}))
    play.restart()
    play.wait(3)
    assert {incarnation.instance for incarnation in play.state.groups["g"].live} == {"m0"}
    assert play.owned() == {"m0": "0-3"}
    newest = {record.key: record for kind, record in play.written if kind == "members"}
    assert newest[late.key] == Tombstone(late.key), "what it wrote is taken back again"


def test_a_start_does_not_call_the_announcement_lost_of_a_member_that_left(play):
    play.stop()
    play.leave("m0", "i1")
    left = play.members.pop(("m1", "i1"))
    play.receive("members", replace(left, state="left", owned={}))
    play.restart()
    assert play.logged("member.evicted") == []
    assert play.state.groups["g"].owners() == {}


def test_what_a_start_has_to_hold_for_a_member_is_logged(play):
    play.stop()
    owned = {**play.members["m0", "i1"].owned, "u": (7,)}
    play.update("m0", "i1", owned=owned)
    play.restart()
    assert [fields["partitions"] for fields in play.logged("member.claimed")] == [{"u": "7"}]


def claimed_of_a_lost_planner():
    """A group without a plan whose only member uses what no record gives to it."""
    play = Play()
    play.start(topic())
    owned = {"t": (0,)}
    play.join(member("m0", state="active", planner_epoch=6, acked=3, owned=owned))
    play.wait(2)
    assert play.logged("group.records_lost")
    return play


def test_a_daemon_that_starts_within_the_wait_after_lost_records_waits_again():
    play = claimed_of_a_lost_planner()
    play.restart()
    play.join(member("m1"))
    play.wait(TIMERS.grant - 3)
    assert play.owned() == {"m0": "0", "m1": ""}, "others may use partitions that nobody knows of"
    play.wait(9)
    assert play.owned()["m1"]
