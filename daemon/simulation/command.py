"""`levelwind simulate`: build the world of a request, simulate it, and present the results."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.assignors.json_problems import MAX_LINE_LENGTH
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.registry import STRATEGIES
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.printable import one_line
from levelwind.daemon.simulation.engine import PlayRules, simulate
from levelwind.daemon.simulation.results import StrategyFigures, table
from levelwind.daemon.simulation.scenario import Size, generate_world
from levelwind.daemon.simulation.strategy.candidates import candidate
from levelwind.daemon.simulation.strategy.group_control import Rules
from levelwind.daemon.simulation.trace import read_trace
from levelwind.daemon.simulation.trace_replay import (
    readers_of_problem,
    replay_world,
    uniform_readers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.simulation.fleet import World

DEFAULT_STRATEGIES = (
    "optimal",
    "lag",
    "lag-global",
    "sticky",
    "cooperative-sticky",
    "uniform",
    "range",
    "roundrobin",
)
"""Strategies compared by default; `failover`, which gives everything to one member, is left out."""
MAX_CELLS = 100_000_000
"""Largest product of partitions and ticks. It limits the run time, since a person waits for the
result, and the memory, which holds the arrivals of an hour of ticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """Options of the command."""

    strategies: tuple[str, ...]
    """Candidates to compare, with or without options."""
    scenario: str = "day"
    """Name of the scenario; not used with a trace."""
    seed: int = 1
    size: Size = field(default_factory=Size)
    trace: Path | None = None
    """File of the trace to replay instead of a scenario."""
    problem: Path | None = None
    """File of the problem whose members read the trace; None for equal members."""
    group: str | None = None
    """Group of the trace; None if the trace holds one group."""
    speed: float | None = None
    """Records that a member of capacity 1 reads per second; None: derived from the utilisation."""
    target: float = 60.0
    """Longest time, in seconds, that a record should wait."""
    pause: float = 5.0
    """Seconds for which nobody reads a partition that moves."""
    classic: bool = False
    """Whether eager strategies stop the whole group, as without levelwind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """A simulated world and the figures of each strategy."""

    request: SimulationRequest
    world: World
    rows: tuple[StrategyFigures, ...]

    @property
    def title(self) -> str:
        """The simulated world in one line."""
        fleet = self.world.fleet
        return (
            f"{self.world.name}: {fleet.partitions:,} partitions, "
            f"{len(fleet.consumers):,} members, "
            f"{_duration(self.world.seconds)}, {self.rows[0].arrived:,} records"
        )

    def as_json(self) -> dict[str, object]:
        """Fields by name; all but `timing` are the same in every run."""
        fleet = self.world.fleet
        return {
            "id": self.world.name,
            "partitions": fleet.partitions,
            "members": len(fleet.consumers),
            "seconds": self.world.seconds,
            "tick": self.world.tick,
            "speed": round(fleet.speed, 6),
            "lag_target_seconds": self.request.target,
            "pause_seconds": self.request.pause,
            "rebalance": "classic" if self.request.classic else "levelwind",
            "strategies": [row.as_json() for row in self.rows],
        }

    def as_text(self) -> str:
        """Title, conditions and table for a terminal."""
        stops = (
            "eager strategies stop the group"
            if self.request.classic
            else "only partitions that move pause"
        )
        target, pause = self.request.target, self.request.pause
        return (
            f"{one_line(self.title)}\n"
            f"target: no record waits longer than {target:g} s; a member of capacity 1 reads "
            f"{self.world.fleet.speed:,.1f} records/s; a hand-over takes {pause:g} s, {stops}\n"
            f"{table(self.rows)}\n"
            "time above: share of the partitions' time above the target; group above: share of time"
            " with any partition above it; * the least\n"
        )


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:,.4g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"


def parse_strategies(names: str | None) -> tuple[str, ...]:
    """Parse a comma-separated list; `all` means all strategies, None the default ones.

    Raises:
        ConfigurationError: a strategy or an option is unknown.
    """
    if names is None:
        return DEFAULT_STRATEGIES
    if names.strip() == "all":
        return tuple(STRATEGIES)
    listed = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    with _as_configuration():
        for name in listed:
            candidate(name)
    return listed


def rules_of(settings: Settings) -> Rules:
    """Rules by which the daemon plans under these settings."""
    return Rules(
        control=settings.control,
        skew=settings.pipeline_settings(jars=()).skew,
        dead_after=settings.timers.dead_after,
        grant=settings.timers.grant,
    )


def world_of(request: SimulationRequest) -> World:
    """World of a request.

    Raises:
        ConfigurationError: the request cannot be met; the message names the option or the file at
            fault.
    """
    with _as_configuration():
        if not request.trace:
            return _generated_world(request)
        world = _replayed_world(request, request.trace)
    _check_fits(world.fleet.partitions, world.ticks, world.tick)
    return world


def run(
    request: SimulationRequest, settings: Settings, progress: Callable[[float], None]
) -> SimulationResult:
    """Simulate a request.

    Raises:
        ConfigurationError: as `world_of`.
    """
    world = world_of(request)
    conditions = PlayRules(
        rules=rules_of(settings),
        target=request.target,
        pause=request.pause,
        classic=request.classic,
    )
    return SimulationResult(
        request=request,
        world=world,
        rows=simulate(world, request.strategies, conditions, progress=progress),
    )


def _generated_world(request: SimulationRequest) -> World:
    if request.problem or request.group:
        raise ConfigurationError("simulate: --problem and --group belong to a --trace")
    if request.speed is not None:
        raise ConfigurationError(
            "simulate: --speed belongs to a --trace; --utilisation sets the load of a scenario"
        )
    size = request.size
    _check_fits(size.partitions, size.ticks, size.tick)
    return generate_world(request.scenario, size, request.seed)


def _check_fits(partitions: int, ticks: int, tick: float) -> None:
    if partitions * ticks > MAX_CELLS:
        raise ConfigurationError(
            f"simulate: {partitions:,} partitions for {ticks:,} ticks are too many to simulate; "
            f"a --tick of {tick * partitions * ticks / MAX_CELLS:.3g} s or more makes them fit"
        )


def _replayed_world(request: SimulationRequest, path: Path) -> World:
    with _readable(path), path.open("rb") as lines:
        trace = read_trace(lines, request.group)
    if request.problem is None:
        readers = uniform_readers(request.size.members, trace)
    else:
        with _readable(request.problem), request.problem.open("rb") as lines:
            readers = readers_of_problem(
                next(
                    (
                        line
                        for line in iter(lambda: lines.readline(MAX_LINE_LENGTH), b"")
                        if line.strip()
                    ),
                    b"{}",
                )
            )
    return replay_world(
        trace,
        readers,
        name=path.name,
        tick=request.size.tick,
        speed=request.speed,
        utilisation=request.size.utilisation,
    )


@contextmanager
def _as_configuration() -> Iterator[None]:
    try:
        yield
    except ProblemError as error:
        raise ConfigurationError(f"simulate: {error}") from error


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ProblemError as error:
        raise ConfigurationError(f"{path}: {error}") from error
