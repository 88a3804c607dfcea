"""The checks of `make check`, side by side: format, lint, types, import contracts."""

import subprocess
import sys
import time
from pathlib import Path

from levelwind_testing.run_times import MachineTime, cpu_seconds
from levelwind_testing.source_tree import ROOT

CHECKS = {
    "types": ("mypy",),  # the longest
    "imports": ("lint-imports",),
    "lint": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
}


def main() -> int:
    """Run all checks, print what each says once it has ended, and where the time went."""
    begun, machine = time.monotonic(), MachineTime.now()
    programs = Path(sys.executable).parent
    running = {
        name: subprocess.Popen(
            [programs / command[0], *command[1:]],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, command in CHECKS.items()
    }
    failed = []
    for name, check in reversed(running.items()):
        said, _ = check.communicate()
        print(f"== {name}\n{said}", end="", flush=True)
        if check.returncode:
            failed.append(name)
    idle = MachineTime.now().idle_share_since(machine)
    seconds = time.monotonic() - begun
    print(f"{seconds:.1f} s wall, {cpu_seconds():.1f} s CPU, {idle:.0%} of the machine idle")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
