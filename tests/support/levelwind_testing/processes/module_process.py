"""Modules of this package as programs of their own, so that a test can kill them."""

import os
import subprocess
import sys
from pathlib import Path

from levelwind.deploy import guard


def start_module(name: str, *arguments: str, grace: float) -> guard.Guarded:
    """Start a module by its name; `grace` is seconds from SIGTERM to SIGKILL.

    What it writes to its standard output can be read.
    """
    support = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH", "")]))
    return guard.start(
        ["env", f"PYTHONPATH={path}", sys.executable, "-m", name, *arguments],
        output=subprocess.PIPE,
        grace=grace,
    )
