"""`python -m levelwind_testing.chaos [--minutes 3] [--seed N]`: one chaos run and its report."""

import argparse
import logging
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from levelwind_testing.chaos.chaos_mutants import MUTANTS
from levelwind_testing.chaos.chaos_plan import FENCED, PLAIN, ChaosPlan
from levelwind_testing.chaos.chaos_run import run


def main() -> int:
    """Run once; the exit code is 1 if something happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="minutes of faults")
    parser.add_argument("--seed", type=int, help="seed of the faults; by default a new one")
    parser.add_argument("--scale", type=float, default=0.25, help="factor of production's timers")
    parser.add_argument("--directory", type=Path, help="for journals and logs; kept if it is given")
    parser.add_argument(
        "--slow-handlers",
        action="store_true",
        help="no faults: members come and go, and handlers take up to max.poll.interval.ms",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="FAULT", help="a kind of faults, by its name"
    )
    parser.add_argument(
        "--fencing",
        choices=("both", "none", "broker"),
        default="both",
        help="who fences commits; both: four members of each kind",
    )
    parser.add_argument(
        "--long-every",
        type=float,
        help="mean seconds between two long handlers of a member",
    )
    parser.add_argument(
        "--mutant", choices=MUTANTS, help="leave a rule out: the check must find violations"
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    plan = ChaosPlan(
        groups={
            "both": (PLAIN, FENCED),
            "none": (replace(PLAIN, members=8),),
            "broker": (replace(FENCED, members=8),),
        }[options.fencing],
        seconds=60 * options.minutes,
        seed=seed,
        scale=options.scale,
        faults=not options.slow_handlers,
        only=tuple(options.only),
        mutant=options.mutant,
        max_poll_interval=300 * options.scale if options.slow_handlers else 40.0,
        long_every=options.long_every or (20.0 if options.slow_handlers else 60.0),
    )
    with tempfile.TemporaryDirectory(prefix="levelwind-chaos-") as temporary:
        report = run(plan, options.directory or Path(temporary) / "run")
    sys.stdout.write(report.text() + "\n")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
