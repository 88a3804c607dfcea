"""The locks of the parts: what the daemon's environment and a consumer's install."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pins(file):
    """Each requirement of a lock with its hashes; one package may have several, by markers."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / file).read_text(), flags=re.MULTILINE)
    requirements = re.split(r"\n(?=\S)", text.strip())
    return {
        one.split(" \\")[0]: frozenset(re.findall("sha256:[0-9a-f]+", one)) for one in requirements
    }


@pytest.mark.parametrize("part", ["daemon", "consumer"])
def test_the_lock_of_a_part_is_a_part_of_the_whole(part):
    def versions(found):
        return {name.partition(" ;")[0]: hashes for name, hashes in found.items()}

    whole, of_part = (
        versions(pins("requirements.lock")),
        versions(pins(f"requirements-{part}.lock")),
    )
    assert of_part.items() <= whole.items()
    assert not {name for name in of_part if name.startswith(("pytest", "ruff", "mypy"))}


@pytest.mark.parametrize(("part", "extras"), [("daemon", ["daemon", "cluster"]), ("consumer", [])])
def test_the_lock_of_a_part_has_all_that_its_extras_name(part, extras):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    locked = {name.partition("==")[0] for name in pins(f"requirements-{part}.lock")}
    wanted = {re.match(r"[a-z0-9-]+", line.lower())[0] for line in named} - {"levelwind"}
    assert wanted <= locked
