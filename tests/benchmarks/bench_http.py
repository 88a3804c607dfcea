"""What HTTP costs a daemon: its thread, its memory, and the delay of the planner beside it.

    python tests/benchmarks/bench_http.py

An installation of 500 groups and 20,000 partitions, half of them in one group. The planner's
stand-in is a thread that wants to run every millisecond, and measures how late it is: with no
server, with one that nobody asks, and with readers that ask for everything all the time.
"""

import resource
import statistics
import threading
import time

from levelwind.daemon.api.event_stream import _ReaderState
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.api.views.record_tap import RecordTap
from levelwind.daemon.shown_groups.group_documents import group_document
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing.page.api_client import ApiClient, wait_until_served
from levelwind_testing.page.scripted_groups import large_installation
from levelwind_testing.page.served_page import ServedPage

SECONDS = 5.0
EVERY_SECONDS = 0.001
LARGE = "checkout-events"


def main() -> None:
    """Print the figures."""
    installation = large_installation()
    reads = installation.first()
    tap = RecordTap()
    begun = time.thread_time()
    for read in reads:
        tap.on_record(read)
    print(f"entering a record: {(time.thread_time() - begun) / len(reads) * 1e6:.1f} µs of CPU")
    view = LiveView(tap)
    reader = _ReaderState(view, dict)
    print(f"everything for the first time: {_cpu(lambda: list(reader.changes())):.0f} ms of CPU")
    for read in installation.step():
        tap.on_record(read)
    print(f"every group changed: {_cpu(lambda: list(reader.changes())):.0f} ms of CPU")
    large = _cpu(lambda: group_document(ShownGroup(view.groups[LARGE])))
    print(f"one group of 10,000: {large:.0f} ms of CPU")
    memory = _resident()
    quiet = lateness()
    served = ServedPage(large_installation())
    client = ApiClient(served.url)
    wait_until_served(client)
    client.get("/api/v1/groups")
    idle = lateness()
    stop = threading.Event()
    readers = [
        threading.Thread(target=_read_until, args=(client, path, stop), daemon=True)
        for path in (f"/api/v1/groups/{LARGE}", "/api/v1/groups")
    ]
    for thread in readers:
        thread.start()
    busy = lateness()
    stop.set()
    for thread in readers:
        thread.join()
    served.close()
    for what, late in (("no server", quiet), ("nobody asks", idle), ("two readers", busy)):
        late.sort()
        p99 = late[int(len(late) * 0.99)]
        print(
            f"planner beside {what}: {statistics.median(late):.2f} ms late, p99 {p99:.1f},"
            f" at most {late[-1]:.1f}"
        )
    print(f"memory of server, framework and records: {_resident() - memory:.0f} MB")


def lateness() -> list[float]:
    """Milliseconds by which each of many short sleeps was too long."""
    late = []
    until = time.monotonic() + SECONDS
    while (now := time.monotonic()) < until:
        time.sleep(EVERY_SECONDS)
        late.append((time.monotonic() - now - EVERY_SECONDS) * 1000)
    return late


def _read_until(client: ApiClient, path: str, stop: threading.Event) -> None:
    while not stop.is_set():
        client.get(path)


def _cpu(call) -> float:
    begun = time.thread_time()
    call()
    return (time.thread_time() - begun) * 1000


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
