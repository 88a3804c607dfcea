"""`levelwind simulate`: from what was asked for to a world, and from the figures to text, JSON and a chart."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors.json_problems import MAX_LINE_LENGTH
from assignors.problem.inputs import ProblemError
from assignors.registry import STRATEGIES
from daemon.errors import ConfigurationError
from daemon.simulation.candidates import contender
from daemon.simulation.engine import (
    Course,
    simulate,
)
from daemon.simulation.group_control import Rules
from daemon.simulation.results import (
    Figures,
    table,
)
from daemon.simulation.scenario import Size, made
from daemon.simulation.trace import read_trace
from daemon.simulation.trace_replay import (
    readers_alike,
    readers_of,
    replayed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from daemon.config.settings import Settings
    from daemon.simulation.fleet import World

USUAL = (
    "optimal",
    "lag",
    "lag-global",
    "sticky",
    "cooperative-sticky",
    "uniform",
    "range",
    "roundrobin",
)
"""What is compared where nothing is named; `failover`, which gives one member everything, is no rival."""
MOST = 100_000_000
"""Partitions times ticks; an hour of it has to be in memory, and somebody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of the command."""

    strategies: tuple[str, ...]
    scenario: str = "day"
    seed: int = 1
    size: Size = field(default_factory=Size)
    trace: Path | None = None
    problem: Path | None = None
    group: str | None = None
    speed: float | None = None
    target: float = 60.0
    pause: float = 5.0
    classic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What was simulated, and what it came to."""

    asked: Asked
    world: World
    rows: tuple[Figures, ...]

    @property
    def title(self) -> str:
        """What was simulated, in a line."""
        fleet = self.world.fleet
        return (
            f"{self.world.name}: {fleet.partitions:,} partitions, {len(fleet.consumers):,} members, "
            f"{_lasting(self.world.seconds)}, {self.rows[0].arrived:,} records"
        )

    def as_json(self) -> dict[str, object]:
        """By name; all but `timing` is the same at each run."""
        fleet = self.world.fleet
        return {
            "id": self.world.name,
            "partitions": fleet.partitions,
            "members": len(fleet.consumers),
            "seconds": self.world.seconds,
            "tick": self.world.tick,
            "speed": round(fleet.speed, 6),
            "lag_target_seconds": self.asked.target,
            "pause_seconds": self.asked.pause,
            "rebalance": "classic" if self.asked.classic else "levelwind",
            "strategies": [row.as_json() for row in self.rows],
        }

    def as_text(self) -> str:
        """As people read it."""
        stops = (
            "eager strategies stop the group"
            if self.asked.classic
            else "only what moves stands still"
        )
        return (
            f"{self.title}\n"
            f"target: no record waits for longer than {self.asked.target:g} s; a member of capacity 1 reads "
            f"{self.world.fleet.speed:,.1f} records/s; a hand-over takes {self.asked.pause:g} s, {stops}\n"
            f"{table(self.rows)}\n"
            "time above: share of the partitions' time beyond the target; group above: of time in which any partition was; "
            "* the least\n"
        )


def _lasting(seconds: float) -> str:
    return f"{seconds / 3600:,.4g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"


def wanted(names: str | None) -> tuple[str, ...]:
    """The strategies of a comma-separated list, `all` of them, or the usual ones.

    Raises:
        ConfigurationError: one of them, or an option of one, is unknown.
    """
    if names is None:
        return USUAL
    if names.strip() == "all":
        return tuple(STRATEGIES)
    listed = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    with _as_configuration():
        for name in listed:
            contender(name)
    return listed


def rules_of(settings: Settings) -> Rules:
    """What the daemon would go by under these settings."""
    return Rules(
        control=settings.control,
        skew=settings.pipeline_settings(jars=()).skew,
        dead_after=settings.timers.dead_after,
        grant=settings.timers.grant,
    )


def world_of(asked: Asked) -> World:
    """The day that is asked for.

    Raises:
        ConfigurationError: it cannot be had; the message says whose the fault is.
    """
    with _as_configuration():
        if not asked.trace:
            return _made(asked)
        world = _replayed(asked, asked.trace)
    _check_fits(world.fleet.partitions, world.ticks, world.tick)
    return world


def run(asked: Asked, settings: Settings, progress: Callable[[float], None]) -> Simulated:
    """Simulate what is asked for.

    Raises:
        ConfigurationError: as `world_of`.
    """
    world = world_of(asked)
    course = Course(
        rules=rules_of(settings), target=asked.target, pause=asked.pause, classic=asked.classic
    )
    return Simulated(
        asked=asked, world=world, rows=simulate(world, asked.strategies, course, progress=progress)
    )


def _made(asked: Asked) -> World:
    if asked.problem or asked.group:
        raise ConfigurationError("simulate: --problem and --group belong to a --trace")
    if asked.speed is not None:
        raise ConfigurationError(
            "simulate: --speed belongs to a --trace; --utilisation says how loaded a scenario is"
        )
    size = asked.size
    _check_fits(size.partitions, size.ticks, size.tick)
    return made(asked.scenario, size, asked.seed)


def _check_fits(partitions: int, ticks: int, tick: float) -> None:
    if partitions * ticks > MOST:
        raise ConfigurationError(
            f"simulate: {partitions:,} partitions for {ticks:,} ticks are more than can be played at once; "
            f"a --tick of {tick * partitions * ticks / MOST:.3g} s or more makes them fit"
        )


def _replayed(asked: Asked, path: Path) -> World:
    with _readable(path), path.open("rb") as lines:
        trace = read_trace(lines, asked.group)
    if asked.problem is None:
        readers = readers_alike(asked.size.members, trace)
    else:
        with _readable(asked.problem), asked.problem.open("rb") as lines:
            readers = readers_of(
                next(
                    (
                        line
                        for line in iter(lambda: lines.readline(MAX_LINE_LENGTH), b"")
                        if line.strip()
                    ),
                    b"{}",
                )
            )
    return replayed(
        trace,
        readers,
        name=path.name,
        tick=asked.size.tick,
        speed=asked.speed,
        utilisation=asked.size.utilisation,
    )


@contextmanager
def _as_configuration() -> Iterator[None]:
    try:
        yield
    except ProblemError as wrong:
        raise ConfigurationError(f"simulate: {wrong}") from wrong


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ProblemError as wrong:
        raise ConfigurationError(f"{path}: {wrong}") from wrong
