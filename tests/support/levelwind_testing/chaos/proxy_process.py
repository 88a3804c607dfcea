"""The proxy as its user holds it: links, names of processes, and faults that are lifted again."""

import json
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Self

from levelwind_testing.chaos.programs import ENVIRONMENT

HELD: None = None
"""Delay of bytes that are held until the fault is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """A fault of the traffic from some parties to others; an empty collection: all parties."""

    sources: Collection[str] = ()
    destinations: Collection[str] = ()
    up: float | None = 0.0
    """Seconds by which bytes to the destinations are delayed; `HELD`: until the end."""
    down: float | None = 0.0


class ProxyProcess:
    """A running proxy; any thread may call the methods."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "levelwind_testing.chaos.tcp_proxy"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        self._lock = threading.Lock()
        self._numbers = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def listen(self, destination: str, port: int) -> int:
        """Open a link to a port; the port of the link."""
        return int(self._call(do="listen", destination=destination, port=port)["port"])

    def begin(self, *faults: LinkFault) -> list[int]:
        """Begin faults; their numbers, for `end`."""
        numbers = []
        for fault in faults:
            numbers.append(number := next(self._numbers))
            between = [list(fault.sources), list(fault.destinations)]
            self._call(do="rule", rule=number, between=between, up=fault.up, down=fault.down)
        return numbers

    def end(self, numbers: Collection[int]) -> None:
        """End faults; what was held is delivered now."""
        for number in numbers:
            self._call(do="lift", rule=number)

    @contextmanager
    def during(self, *faults: LinkFault) -> Iterator[None]:
        """Faults for the length of a block."""
        numbers = self.begin(*faults)
        try:
            yield
        finally:
            self.end(numbers)

    def end_all(self) -> None:
        """End every fault."""
        self._call(do="lift")

    def reset(self, sources: Collection[str] = (), destinations: Collection[str] = ()) -> int:
        """Break connections with a reset; how many there were."""
        answer = self._call(do="reset", between=[list(sources), list(destinations)])
        return int(answer["reset"])

    def connections(self) -> dict[str, int]:
        """Number of connections by source and destination, `"member-3 broker-1"`."""
        return self._call(do="list")

    def stop(self) -> None:
        """End the proxy and with it every connection."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.close()
            self._process.wait(10)
            self._process.stdout.close()

    def _call(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the proxy has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the proxy refuses {command}: {answer['error']}")
        return answer
