"""No locked package has a known vulnerability, wherever PyPI's service answers."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
AUDIT = ("make", "--old-file=.venv/.packages", "audit")
"""It must not install packages while other tests run."""
FOUND = re.compile(r"^Found \d+ known vulnerabilit", re.MULTILINE)


def test_no_locked_package_has_a_known_vulnerability():
    try:
        done = subprocess.run(
            AUDIT, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("not audited, for the service did not answer in time")
    said = done.stdout + done.stderr
    if done.returncode and not FOUND.search(said):
        pytest.skip(f"not audited, for the service did not answer: {said.strip()[-300:]}")
    assert done.returncode == 0, said
