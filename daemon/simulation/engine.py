"""Engine: plays one world with every strategy in step, so that each gets the same records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.daemon.simulation.results import StrategyFigures, figures
from levelwind.daemon.simulation.strategy.candidates import candidate
from levelwind.daemon.simulation.strategy.strategy_run import HandOver, StrategyRun
from levelwind.daemon.simulation.traffic import RecentArrivals
from levelwind.streaming.rules.skew import WAITING_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from levelwind.daemon.simulation.fleet import World
    from levelwind.daemon.simulation.strategy.group_control import Rules

BLOCK_TICKS = 720
"""Ticks whose arrivals are in memory at once: an hour of default ticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayRules:
    """Conditions that all strategies share."""

    rules: Rules
    """Triggers, cooldown and timers of the daemon."""
    target: float = 60.0
    """Seconds that a record may wait."""
    pause: float = 5.0
    """Seconds for which nobody reads a partition that moves."""
    classic: bool = False
    """Whether eager strategies stop the whole group, as they do without levelwind, whose hand-over
    is gradual for every strategy."""


def simulate(
    world: World,
    strategies: Sequence[str],
    conditions: PlayRules,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[StrategyFigures, ...]:
    """Play the world with each strategy.

    Args:
        world: fleet, arrivals and events, the same for all strategies.
        strategies: candidates, with options or without.
        conditions: the same for all strategies.
        progress: called with the finished share, block by block.

    Raises:
        ProblemError: a name or an option is unknown.
    """
    runs = [
        StrategyRun(
            world,
            chosen.plan,
            conditions.rules,
            HandOver(pause=conditions.pause, eager=conditions.classic and chosen.eager),
            conditions.target,
        )
        for chosen in map(candidate, strategies)
    ]
    longest = max(conditions.target, WAITING_SECONDS)
    recent = RecentArrivals(world.fleet.partitions, world.tick, longest)
    arrived = int(world.fleet.backlog.sum())
    for first in range(0, world.ticks, BLOCK_TICKS):
        block = world.arrivals.block(first, min(BLOCK_TICKS, world.ticks - first))
        arrived += int(block.sum())
        for offset, records in enumerate(block):
            recent.arrive(records)
            for run in runs:
                run.tick(first + offset, records, recent)
        progress((first + len(block)) / world.ticks)
    return tuple(
        figures(name, run, arrived, world.tick) for name, run in zip(strategies, runs, strict=True)
    )
