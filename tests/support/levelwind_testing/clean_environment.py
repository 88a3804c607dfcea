"""An environment that has a release and the locked packages of the daemon, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from levelwind.deploy.bootstrap import installer

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class CleanEnvironment:
    """A virtual environment, and the variables that its programs get."""

    home: Path

    @classmethod
    def make(
        cls, home: Path, release: Path, lock: str = "requirements-daemon.lock"
    ) -> CleanEnvironment:
        """Install a wheel or an sdist, and the packages of a lock by their hashes."""
        uv = installer()
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, home], check=True)
        constraints = ["--python", home, "--build-constraints", ROOT / "requirements.lock"]
        for command in (
            ["sync", "--require-hashes", *constraints, ROOT / lock],
            ["install", "--no-deps", *constraints, release],
        ):
            words = [uv, "pip", *command, "--quiet"]
            if subprocess.run([*words, "--offline"], capture_output=True, check=False).returncode:
                subprocess.run(words, check=True)
        return cls(home)

    def run(
        self,
        program: str,
        *arguments: str,
        directory: Path,
        stdin: str | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's programs in a directory, for `timeout` seconds at most."""
        return subprocess.run(
            [self.home / "bin" / program, *arguments],
            cwd=directory,
            env=self.variables,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    @property
    def variables(self) -> dict[str, str]:
        """This process's variables without what leads to this checkout."""
        left_out = ("PYTHONPATH", "VIRTUAL_ENV")
        kept = {
            k: v
            for k, v in os.environ.items()
            if k not in left_out and not k.startswith("LEVELWIND_")
        }
        own = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if ".venv" not in p)
        return kept | {"PATH": own, "OPENBLAS_NUM_THREADS": "1"}
