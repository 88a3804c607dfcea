"""The daemon as users run it, on a wall clock that a file sets ahead or back while it runs.

    python FILE.py OFFSETS run ...

The file OFFSETS holds the seconds to add; it need not exist.
"""

import sys
import threading
import time
from pathlib import Path

LOOK_SECONDS = 0.1


def main(offsets: Path) -> None:
    real, shift = time.time, [0.0]
    time.time = lambda: real() + shift[0]  # type: ignore[assignment]
    time.time_ns = lambda: round((real() + shift[0]) * 1e9)  # type: ignore[assignment]

    def follow() -> None:
        while True:
            if offsets.exists():
                shift[0] = float(offsets.read_text() or 0)
            time.sleep(LOOK_SECONDS)

    threading.Thread(target=follow, daemon=True).start()
    from daemon.cli.main import main as run  # noqa: PLC0415 - it must find the clock as it is now

    sys.exit(run())


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    main(file)
