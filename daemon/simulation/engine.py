"""All strategies through one world, in step: the same records arrive at the same time for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.simulation.candidates import contender
from daemon.simulation.results import (
    Figures,
    figures,
)
from daemon.simulation.strategy_run import (
    HandOver,
    Run,
)
from daemon.simulation.traffic import Recent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.simulation.fleet import World
    from daemon.simulation.group_control import Rules

BLOCK = 720
"""Ticks whose arrivals are in memory at once: an hour of the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the day is played."""

    rules: Rules
    target: float = 60.0
    """Seconds: a record that waits for longer is one too many."""
    pause: float = 5.0
    classic: bool = False
    """Eager strategies stop the whole group, as they do without levelwind, whose hand-over is gradual for all."""


def simulate(
    world: World,
    strategies: Sequence[str],
    course: Course,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[Figures, ...]:
    """Play the world with each strategy.

    Args:
        world: what all have in common.
        strategies: names of `STRATEGIES`, with options or without.
        course: the rules.
        progress: is told the share that is done, block by block.

    Raises:
        ProblemError: a name or an option is unknown.
    """
    runs = [
        Run(
            world,
            one.plan,
            course.rules,
            HandOver(pause=course.pause, eager=course.classic and one.eager),
            course.target,
        )
        for one in map(contender, strategies)
    ]
    longest = max(course.target, course.rules.skew.floor_seconds)
    recent = Recent(world.fleet.partitions, world.tick, longest)
    arrived = int(world.fleet.backlog.sum())
    for first in range(0, world.ticks, BLOCK):
        block = world.arrivals.block(first, min(BLOCK, world.ticks - first))
        arrived += int(block.sum())
        for offset, records in enumerate(block):
            recent.arrive(records)
            for run in runs:
                run.tick(first + offset, records, recent)
        progress((first + len(block)) / world.ticks)
    return tuple(
        figures(name, run, arrived, world.tick) for name, run in zip(strategies, runs, strict=True)
    )
