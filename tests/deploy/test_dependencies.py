"""Dependencies: pinned with hashes, installed as locked, and under licences that may be shipped.

Known vulnerabilities are a matter of the day and of a service: `make audit` asks it.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-bootstrap.lock"]
ENTRY = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^ ;\\]+)", re.IGNORECASE)
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
LICENCES = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software|MPL|Mozilla|ISC|0BSD|Zlib|CC0|Unlicense|DFSG",
    re.IGNORECASE,
)
IN_THE_PUBLIC_DOMAIN = {"docutils"}
"""The GPL among its classifiers is that of an Emacs mode, which is no part of the wheel."""
COPYLEFT = re.compile(r"\bA?GPL|General Public License", re.IGNORECASE)


def entries(lock):
    """Name and version of each entry of a lock, with its lines of hashes."""
    found = []
    for line in lock.read_text().splitlines():
        if match := ENTRY.match(line):
            found.append((match["name"], match["version"], []))
        elif line.startswith("    "):
            found[-1][2].append(line)
        else:
            assert line.startswith("#"), line
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_package_has_one_version_and_hashes_and_comes_from_a_registry(lock):
    found = entries(lock)
    assert found
    for name, _, hashes in found:
        assert hashes, name
        assert all(HASH.match(line) for line in hashes), name


@pytest.mark.parametrize("lock", ["jars.lock", "other-brokers.lock"])
def test_every_jar_has_a_hash(lock):
    locked = tomllib.loads((ROOT / "deploy" / lock).read_text())
    assert locked
    for jars in locked.values():
        for coordinates, digest in jars.items():
            assert re.fullmatch(r"[^:]+:[^:]+:[^:]+", coordinates)
            assert re.fullmatch(r"[0-9a-f]{64}", digest), coordinates


def test_what_is_installed_is_what_is_locked():
    locked = {}
    for name, version, _ in entries(LOCKS[0]):
        locked.setdefault(canonical(name), set()).add(version)
    for distribution in metadata.distributions():
        name = canonical(distribution.metadata["Name"])
        if name in locked:
            assert distribution.version in locked[name], name


def test_every_installed_package_of_the_lock_may_be_shipped():
    locked = {canonical(name) for name, _, _ in entries(LOCKS[0])}
    for distribution in metadata.distributions():
        name = canonical(distribution.metadata["Name"])
        if name in locked - IN_THE_PUBLIC_DOMAIN:
            licence = licence_of(distribution.metadata)
            assert LICENCES.search(licence), (distribution.name, licence)
            assert not COPYLEFT.search(licence), (distribution.name, licence)


def licence_of(fields):
    classifiers = [c for c in fields.get_all("Classifier", []) if c.startswith("License ::")]
    return fields.get("License-Expression") or " ".join(classifiers) or fields.get("License") or ""


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()
