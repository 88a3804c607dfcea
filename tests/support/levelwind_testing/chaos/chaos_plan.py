"""What a chaos run does: its groups and their members, timers, faults and traffic."""

from dataclasses import dataclass, replace

from levelwind.assignors.handover.timers import Timers


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """A group of a run."""

    name: str
    members: int
    fencing: str | None = None


PLAIN = GroupPlan(name="plain", members=4)
FENCED = GroupPlan(name="fenced", members=4, fencing="broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPlan:
    """What a run does."""

    seconds: float = 180.0
    """Length of the time in which faults begin."""
    seed: int = 1
    scale: float = 0.25
    """Factor of production's timers, `commit` aside."""
    max_poll_interval: float = 40.0
    """Seconds; a handler takes up to nine tenths of it."""
    long_every: float = 60.0
    """Mean seconds between two long handlers of a member."""
    pause: float = 2.0
    """Mean seconds between two faults."""
    faults: bool = True
    """Whether faults happen at all; without, members come and go every 20 s of production time."""
    only: tuple[str, ...] = ()
    """Kinds of faults, by their names; none: all kinds."""
    mutant: str | None = None
    """A rule that workers and daemon leave out, by its name in `chaos_mutants`."""
    groups: tuple[GroupPlan, ...] = (PLAIN, FENCED)
    topics: int = 2
    partitions: int = 6
    """Partitions of each topic."""
    rate: float = 40.0
    """Records a second, over all partitions."""
    settle: float = 240.0
    """The most seconds from the end of the faults until everything is committed."""

    @property
    def timers(self) -> Timers:
        """Timers of the members and the daemon.

        `commit`, of which clients wait a quarter for an answer, is that of production: a machine
        that is busy with the whole cluster takes its time to answer.
        """
        scaled = Timers().scaled(self.scale)
        more = Timers().commit - scaled.commit
        return replace(scaled, commit=Timers().commit, grant=scaled.grant + more)
