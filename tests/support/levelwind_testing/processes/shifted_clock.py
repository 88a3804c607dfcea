"""The daemon as users run it, on a wall clock that a file sets ahead or back while it runs.

    python FILE.py OFFSETS run ...

The file OFFSETS holds the seconds to add; it need not exist. Each look at the clock reads it.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path


def main(offsets: Path) -> None:
    real, shift = time.time, [0.0]

    def shifted() -> float:
        with suppress(FileNotFoundError):
            # Empty is a file that is about to be written.
            shift[0] = float(offsets.read_text() or shift[0])
        return real() + shift[0]

    time.time = shifted  # type: ignore[assignment]
    time.time_ns = lambda: round(shifted() * 1e9)  # type: ignore[assignment]
    from levelwind.daemon.cli.main import main as run  # noqa: PLC0415 - it must find the clock as it is now

    sys.exit(run())


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    main(file)
