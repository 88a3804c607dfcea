"""Mutants of the protocol: the real code with one of its rules left out.

Each has a schedule that a random list of faults hardly ever meets. They run with the second
condition for freeing an eviction switched off where the first one alone must hold, and with it
where it is the rule that is left out.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from msgspec.structs import replace

from levelwind.assignors.handover.holding import Holding, Revocation
from levelwind.assignors.handover.lease import Lease
from levelwind.assignors.handover.ledger import Ledger
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment
from levelwind.daemon.control.boundary.control_events import RecordReceived
from levelwind_testing.simulation.faults import Fault
from levelwind_testing.simulation.processes import member_process
from levelwind_testing.simulation.processes.member_shell import Shell
from levelwind_testing.simulation.processes.planner_process import PlannerProcess
from levelwind_testing.simulation.world import World, WorldSettings

# Timers with as short a wait before a grant as they allow.
TIGHT = Timers(commit=0.5, grant=22.6)
TWO = WorldSettings(
    groups={"g": ("t",)},
    instances={"g": ("A", "a", "b")},
    outside=frozenset({"A"}),
    topics={"t": 2},
    machines=3,
    max_poll_interval=120.0,
    planner_timers=TIGHT,
    member_timers=TIGHT,
)


@dataclass(frozen=True)
class Mutant:
    """A rule that is left out, and the faults that show it."""

    name: str
    faults: tuple
    mutated: object
    """Returns a context in which the rule is left out."""
    shell: type = Shell
    settings: WorldSettings = field(default=TWO)
    confirms_silence: bool = False
    """Whether the second condition for freeing an eviction holds in the schedule's runs."""

    def run(self, *, seed=1, mutated, tracing=False):
        """Run the schedule with the rule or without it."""
        with ExitStack() as context:
            if not self.confirms_silence:
                context.enter_context(without_fresh_end())
            if mutated:
                context.enter_context(self.mutated())
            shell = (self.shell if mutated else Shell)()
            world = World(seed, self.settings, list(self.faults), shell=shell, tracing=tracing)
            world.run()
            return world


@contextmanager
def unchanged():
    """The mutant is in the shell alone."""
    yield


def without_fresh_end():
    """Free an eviction by its read-back alone, whatever is still read of the incarnation."""
    return patch.object(Holding, "silence_confirmed", lambda *_: True)


def short_grant():
    return patch.object(Ledger, "eviction_read_back", _freeing_after(3.0))


def no_wait():
    return patch.object(Ledger, "eviction_read_back", _freeing_after(0.0))


def _freeing_after(seconds):
    original = Ledger.eviction_read_back

    def eviction_read_back(ledger, incarnation, now):
        after = original(ledger, incarnation, now)
        if after is ledger:
            return after
        holding = after.holdings[incarnation]
        holding = replace(holding, standing=holding.eviction._replace(free_at=now + seconds))
        return replace(after, holdings={**after.holdings, incarnation: holding})

    return eviction_read_back


def any_acknowledgement():
    return patch.object(Revocation, "ended_by", lambda *_: True)


@contextmanager
def timed_from_commit():
    """Take an eviction as read back when `commit_transaction` returns."""
    original = PlannerProcess._publish

    def publish(planner, records):
        yield from original(planner, records)
        for kind, record in records:
            if isinstance(record, MemberAssignment) and record.state == "evicted":
                planner.mailbox.put(
                    ("returned", record.key), RecordReceived(kind=kind, record=record)
                )

    with patch.object(PlannerProcess, "_publish", publish):
        yield


class MeasuringFromReceipt(Shell):
    def moment(self, process, _sent_at):
        return process.now()


class NotAskingBeforeDelivery(Shell):
    def deliverable(self, process):
        return not process.lost

    def lease_over(self, _process):
        return False


class MonotonicClock(Shell):
    def member_clock(self, process):
        return process.machine.monotonic_seconds(process.scheduler.now)


def lapsed_renewed():
    return patch.object(Lease, "lapsed", lambda *_: False)


@contextmanager
def ignoring_unreadable():
    """Renew over a record about oneself that could not be read."""
    original = member_process.step

    def step(machine, event, now):
        after, effects = original(machine, event, now)
        return replace(after, unreadable=False) if after.unreadable else after, effects

    with patch.object(member_process, "step", step):
        yield


def _cut_off(at=30.0, seconds=70.0):
    return Fault(at=at, kind="cut", target="a", seconds=seconds, amount=1.0)


MUTANTS = (
    Mutant(
        "the wait before a grant is shorter than the lease",
        (_cut_off(),),
        short_grant,
    ),
    Mutant("an eviction is not waited out", (_cut_off(),), no_wait),
    Mutant(
        "the lease is measured from the answer",
        (
            Fault(at=30.0, kind="late answers", target="a", seconds=3.6, amount=9.0),
            Fault(at=33.6, kind="cut requests", target="a", seconds=60.0, amount=1.0),
            Fault(at=33.6, kind="twin", target="a", seconds=90.0),
        ),
        unchanged,
        shell=MeasuringFromReceipt,
    ),
    Mutant(
        "any acknowledgement ends a revocation",
        (
            # The first announcement of the second b is under way for a minute. It arrives while b
            # works and is to give up what it has got since.
            Fault(at=10.0, kind="kill", target="b", seconds=50.0),
            Fault(at=60.001, kind="late record", target="b", seconds=60.0),
            Fault(at=100.0, kind="slow handlers", target="b", seconds=25.0, amount=0.4),
            Fault(at=117.0, kind="join", target="A"),
        ),
        any_acknowledgement,
    ),
    Mutant(
        "the wait begins with the return of commit_transaction",
        (
            Fault(at=30.0, kind="late markers", seconds=2.0, amount=12.0),
            Fault(at=30.0, kind="twin", target="a", seconds=90.0),
            Fault(at=38.0, kind="cut", target="a", seconds=60.0, amount=1.0),
        ),
        timed_from_commit,
    ),
    Mutant(
        "nothing is asked before delivery",
        (Fault(at=30.0, kind="pause", target="a", seconds=70.0),),
        unchanged,
        shell=NotAskingBeforeDelivery,
    ),
    Mutant(
        "the member goes by the monotonic clock",
        (Fault(at=30.0, kind="sleep", target="machine1", seconds=70.0),),
        unchanged,
        shell=MonotonicClock,
    ),
    Mutant(
        "a lease that is over is renewed",
        (
            Fault(at=29.0, kind="deposed leader", target="a", seconds=120.0),
            Fault(at=30.0, kind="pause", target="a", seconds=70.0),
        ),
        lapsed_renewed,
    ),
    Mutant(
        "an eviction is freed without a fresh end of the announcements",
        (
            Fault(at=29.0, kind="deposed leader", target="a", seconds=90.0),
            Fault(at=30.0, kind="twin", target="a", seconds=120.0),
        ),
        without_fresh_end,
        confirms_silence=True,
    ),
    Mutant(
        "the lease is renewed over an eviction that cannot be read",
        (
            Fault(at=29.0, kind="unreadable eviction", target="a", seconds=90.0),
            Fault(at=30.0, kind="twin", target="a", seconds=120.0),
            # The tombstone of its record, which it can read, comes with the grant to the twin.
            Fault(at=50.0, kind="lagging reader", target="a", seconds=20.0, amount=12.0),
        ),
        ignoring_unreadable,
    ),
)
