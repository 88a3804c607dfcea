"""What the observer asks of a large fleet in a tick: requests, bytes and its own CPU.

    python tests/benchmarks/bench_observer.py [--brokers 500] [--topics 20000] [--partitions 10]

The brokers are simulated: requests are counted where librdkafka would send them, and bytes by
Kafka's protocol. CPU is that of the observer in Python; librdkafka's comes on top.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind.daemon.telemetry import log_config
from levelwind_testing.kafka.observed_fleet import ObservedFleet
from levelwind_testing.kafka.simulated_admin import Traffic

ROUND = 10


def show(name: str, ticks: Callable[[], list[Traffic]]) -> None:
    begun = time.process_time()
    traffic = ticks()
    cpu = (time.process_time() - begun) / len(traffic)
    requests = [sum(tick.requests.values()) for tick in traffic]
    most = max(max(tick.requests.values()) for tick in traffic)
    sizes = [sum(tick.bytes.values()) / 1e6 for tick in traffic]
    largest = max(max(tick.bytes.values()) for tick in traffic) / 1e3
    print(
        f"{name:<34}{min(requests):>8,}{max(requests):>8,}{most:>8}"
        f"{min(sizes):>9.2f}{max(sizes):>9.2f}{largest:>11,.0f}{cpu:>8.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=500)
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=10)
    options = parser.parse_args()
    log_config.configure(level="error", form="json")
    fleet = ObservedFleet(options.brokers, options.topics, options.partitions)
    print(
        f"{options.brokers} brokers, {options.topics:,} topics of {options.partitions} partitions;"
        " a tick: requests (least, most, most to one broker), MB (least, most), kB of one broker,"
        " CPU seconds"
    )
    show("first probe", lambda: fleet.layouts(1))
    show("later probes", lambda: fleet.layouts(ROUND))
    show("first sample", lambda: fleet.samples(1, growing=True))
    show("samples, every log grows", lambda: fleet.samples(ROUND, growing=True))
    fleet.samples(1, growing=False)
    show("samples, no log grows", lambda: fleet.samples(ROUND, growing=False))
    fleet.close()


if __name__ == "__main__":
    main()
