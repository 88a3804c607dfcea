"""Processes as containers and units confine them: another user, no rights, a read-only root.

The root is a view of this machine's own, in a namespace of mounts that ends with the process: the
directories that the units expect are added, nothing can be written but the state and /tmp, and
/proc shows processes of the same user alone. So it needs root, and a kernel with overlays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache as once
from pathlib import Path
from typing import Any

from levelwind.deploy import guard
from levelwind.deploy.bootstrap import cache
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.source_tree import NAMES, ROOT

NUMBER = 10001
"""User and group of the processes, as in the image."""
SETUP = """
set -eu
scratch=$1 settings=$2 kept=$3 venv=$4 cache=$5; shift 5
mount -t tmpfs -o mode=0755 tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
new=$scratch/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$new"
chmod 755 "$new/root" 2>/dev/null || true   # the interpreter may be there
mkdir -p "$new/opt/levelwind/cache" "$new/etc/levelwind" "$new/var/lib/levelwind"
ln -s "$venv/bin" "$venv/lib" "$venv/pyvenv.cfg" "$new/opt/levelwind/"
ln -s "$cache" "$new/opt/levelwind/cache/levelwind"
# Spark needs a user with a name.
echo "levelwind:x:$NUMBER:$NUMBER::/var/lib/levelwind:/usr/sbin/nologin" >> "$new/etc/passwd"
cp "$settings" "$new/etc/levelwind/levelwind.toml"
# As in an image, whose files have other times.
find "$new$cache/maven" -name '*.verified' -delete
# What the new /tmp would hide.
mkdir "$scratch/tmp"
for path in $kept; do mkdir -p "$scratch/tmp$path"; mount --bind "$path" "$scratch/tmp$path"; done
mount -o remount,ro "$new"
mount -t tmpfs -o "mode=0700,uid=$NUMBER,gid=$NUMBER" tmpfs "$new/var/lib/levelwind"
mount -t tmpfs -o mode=1777 tmpfs "$new/tmp"
for path in $kept; do
  mkdir -p "$new$path"
  mount --bind "$scratch/tmp$path" "$new$path"
  mount -o remount,bind,ro "$new$path"
done
mount --rbind /dev "$new/dev"
mount -t proc -o nosuid,nodev,noexec,subset=pid,hidepid=invisible proc "$new/proc"
exec chroot "$new" setpriv --reuid="$NUMBER" --regid="$NUMBER" --clear-groups --no-new-privs \
  --inh-caps=-all --bounding-set=-all "$@"
"""


@once
def missing() -> str | None:
    """What this machine lacks for a confined process; None if it lacks nothing."""
    if os.geteuid() != 0:
        return "root"
    for program in ("unshare", "setpriv", "mount", "chroot"):
        if shutil.which(program) is None:
            return program
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "overlays"
    probe = ["unshare", "--mount", "true"]
    return (
        "namespaces" if subprocess.run(probe, capture_output=True, check=False).returncode else None
    )


class ConfinedProcess:
    """A running process; `events` grows with the JSON lines of its output, `noise` with others."""

    def __init__(
        self, command: list[str], *, settings: Path, scratch: Path, variables: dict[str, str]
    ) -> None:
        """Start a process.

        Args:
            command: what the process runs; it sees the environment as /opt/levelwind.
            settings: the file that becomes /etc/levelwind/levelwind.toml.
            scratch: a directory of its own.
            variables: the whole environment, besides PATH and where the project is.
        """
        environment_home = Path(sys.prefix).resolve()
        used = (ROOT, environment_home, Path(sys.base_prefix).resolve(), cache().resolve())
        kept = [str(path) for path in used if path.is_relative_to("/tmp")]  # noqa: S108 - hidden
        environment = {
            "PATH": "/opt/levelwind/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(NAMES),
            "PYTHONUNBUFFERED": "1",
            **variables,
        }
        words = ["env", "-i", *(f"{k}={v}" for k, v in environment.items()), *command]
        setup = ["bash", "-c", f"NUMBER={NUMBER}\n{SETUP}", "confined", str(scratch), str(settings)]
        setup += [" ".join(kept), str(environment_home), str(cache().resolve())]
        namespace = ["unshare", "--mount", "--propagation", "private"]
        self.child = guard.start([*namespace, *setup, *words], output=subprocess.PIPE, grace=20)
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        follow_json_lines(self.child.process, self.events.append, self.noise)

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The lines of an event."""
        return [each for each in list(self.events) if each.get("event") == event]

    def output(self) -> str:
        """Everything that the process wrote, JSON first."""
        return "\n".join([*map(json.dumps, list(self.events)), *self.noise])
