"""Run many seeds of the simulation on every core: python tests/simulation/soak.py --seeds 10000

Prints the steps a second of CPU and the faults of each kind; for a seed that fails, the transcript
of its shortest list of faults, and exits with 1.
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.simulation.invariants import ViolationError
from levelwind_testing.simulation.seeds import faults_of, settings_of, world_of
from levelwind_testing.simulation.shrinking import report

AT_ONCE = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    behind = options.first + options.seeds
    batches = [
        range(first, min(first + AT_ONCE, behind))
        for first in range(options.first, behind, AT_ONCE)
    ]
    total, failed = Counter(), 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, (counts, transcripts) in enumerate(pool.map(run_seeds, batches), 1):
            total += counts
            failed += len(transcripts)
            for transcript in transcripts:
                print(f"\n{transcript}\n", flush=True)
            if number % 10 == 0:
                print(f"{number * AT_ONCE} seeds, {total['steps']:,} steps", flush=True)
    seconds = total.pop("microseconds of CPU") / 1e6
    steps = total.pop("steps")
    back = total.pop("commits put back", 0)
    print(f"{options.seeds} seeds, {failed} failed; {steps:,} steps, ", end="")
    print(f"{steps / seconds:,.0f} a second of CPU; {back} late commits put an offset back")
    print("faults: " + ", ".join(f"{count} {kind}" for kind, count in total.most_common()))
    sys.exit(bool(failed))


def run_seeds(seeds):
    """Run some seeds; count steps and faults, and write the transcripts of failures."""
    begun = time.process_time()
    counts, transcripts = Counter(), []
    for seed in seeds:
        world = world_of(seed)
        try:
            world.run()
        except ViolationError:
            settings = settings_of(seed)
            transcripts.append(report(seed, settings, faults_of(seed, settings)))
        counts += world.happened
        counts["steps"] += world.scheduler.steps
        counts["commits put back"] += world.checks.commits_put_back
    counts["microseconds of CPU"] += round(1e6 * (time.process_time() - begun))
    return counts, transcripts


if __name__ == "__main__":
    main()
