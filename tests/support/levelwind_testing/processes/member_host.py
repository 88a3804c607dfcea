"""Many members in one process: real state machines, one reader and one producer for all of them.

A program: `python -m levelwind_testing.processes.member_host BOOTSTRAP PREFIX GROUP TOPIC`, with
commands on standard input, one a line: `join FIRST LAST` starts the members of these numbers,
`leave FIRST LAST` ends them. It ends with its input. Records and topics are the real ones; no
partition is read: a member gives up and starts its partitions at once.
"""

import json
import sys
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from uuid import uuid4

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.following.announcer import Announcer
from levelwind.assignors.clients.confluent.reading.assignments_reader import (
    AssignmentsReader,
    EndReached,
    ReaderFailed,
    RecordRead,
    StableOffsetAnswered,
)
from levelwind.assignors.clients.confluent.reading.read_proof import ReadProof
from levelwind.assignors.clients.confluent.settings import client_settings
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_machine import step
from levelwind.assignors.handover.member_state import MemberMachine, MemberProfile, Phase
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment, Tombstone, decode
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind.assignors.protocol.topics import Topics

TICK_SECONDS = 0.25
WAIT_SECONDS = 0.02


class MemberHost:
    """Members of one group, by incarnation."""

    def __init__(self, bootstrap: str, prefix: str, group: str, topic: str) -> None:
        self._group = group
        self._topic = topic
        self._timers = Timers()
        self._mailbox: SimpleQueue[object] = SimpleQueue()
        self._members: dict[str, MemberMachine] = {}
        self._reassembly = Reassembly()
        settings = client_settings(
            {"bootstrap.servers": bootstrap, "log_level": 0},
            profile=MemberProfile(group=group, instance="host", topics=(topic,)),
            timers=self._timers,
        )
        topics = Topics(prefix)
        self._reader = AssignmentsReader(
            settings, topics=topics, group=group, post=self._mailbox.put
        )
        self._announcer = Announcer(
            settings,
            topic=topics.members,
            on_acked=lambda incarnation, at: self._handle(incarnation, ev.AnnouncementAcked(at)),
            on_failed=_complain,
            on_replaced=_complain,
        )
        self._announcer.partition, start = self._reader.place()
        self._proof = ReadProof(start)

    def run(self) -> None:
        """Serve the members until standard input ends."""
        self._reader.start()
        self._reader.ask(self._proof.read_to)
        threading.Thread(target=self._read_commands, daemon=True).start()
        ticked_at = asked_at = boot_seconds()
        while True:
            for message in self._waiting():
                if message is None:
                    return
                self._take(message)
            self._announcer.serve()
            now = boot_seconds()
            if now - ticked_at >= TICK_SECONDS:
                ticked_at = now
                self._handle_all(ev.Tick())
            if now - asked_at >= self._timers.heartbeat:
                asked_at = now
                self._reader.ask(self._proof.read_to)

    def _waiting(self) -> list[object]:
        """What is in the mailbox, after a wait for the first."""
        found: list[object] = []
        with suppress(Empty):
            found.append(self._mailbox.get(timeout=WAIT_SECONDS))
            while True:
                found.append(self._mailbox.get_nowait())
        return found

    def _read_commands(self) -> None:
        for line in sys.stdin:
            self._mailbox.put(line.split())
        self._mailbox.put(None)

    def _take(self, message: object) -> None:
        match message:
            case ["join", first, last]:
                for instance in _names(first, last):
                    self._join(instance)
            case ["leave", first, last]:
                names = set(_names(first, last))
                for member in list(self._members.values()):
                    if member.profile.instance in names:
                        self._handle(member.incarnation, ev.LeaveRequested())
            case RecordRead(record):
                self._take_record(record)
            case EndReached(offset):
                self._confirm(self._proof.read(offset))
            case StableOffsetAnswered():
                self._confirm(self._proof.answered(*message))
            case ReaderFailed(error):
                raise error

    def _join(self, instance: str) -> None:
        profile = MemberProfile(group=self._group, instance=instance, topics=(self._topic,))
        member = MemberMachine.create(profile=profile, timers=self._timers, incarnation=uuid4().hex)
        self._members[member.incarnation] = member
        self._handle(member.incarnation, ev.Started())

    def _take_record(self, message: object) -> None:
        kind, *names = json.loads(message.key())
        if kind in ("m", "ms") and names[2] in self._members:
            record = self._reassembly.take(decode("assignments", message.key(), message.value()))
            match record:
                case MemberAssignment():
                    self._handle(record.incarnation, ev.AssignmentReceived(record))
                case Tombstone(key=("m", _, _, incarnation)):
                    self._handle(incarnation, ev.AssignmentDeleted())
        self._confirm(self._proof.read(message.offset() + 1))

    def _confirm(self, asked_at: float | None) -> None:
        if asked_at is not None:
            self._handle_all(ev.ReadConfirmed(asked_at))

    def _handle_all(self, event: ev.Event) -> None:
        for incarnation in list(self._members):
            self._handle(incarnation, event)

    def _handle(self, incarnation: str, event: ev.Event) -> None:
        """Let a member take a step; one that has left or begins another life is filed anew."""
        before = self._members.pop(incarnation, None)
        if before is None:
            return
        member, effects = step(before, event, boot_seconds())
        if member.phase is not Phase.LEFT:
            self._members[member.incarnation] = member
        for effect in effects:
            self._perform(member.incarnation, effect)

    def _perform(self, incarnation: str, effect: ev.Effect) -> None:
        match effect:
            case ev.Announce(record):
                self._announcer.announce(record)
            case ev.Retire(key):
                self._announcer.retire(key)
            case ev.Revoke():
                self._handle(incarnation, ev.RevokeFinished("committed"))
            case ev.Grant():
                self._handle(incarnation, ev.GrantFinished())
            case ev.Lose():
                _complain(f"{incarnation} is lost: {effect.reason}")
                self._handle(incarnation, ev.LoseFinished(uuid4().hex, no_commit_in_flight=True))


def _names(first: str, last: str) -> list[str]:
    return [f"member-{number:04}" for number in range(int(first), int(last) + 1)]


def _complain(reason: str) -> None:
    sys.stderr.write(f"member_host: {reason}\n")


if __name__ == "__main__":
    MemberHost(*sys.argv[1:]).run()
