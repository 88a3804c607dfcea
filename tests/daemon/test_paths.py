"""Directories of state: made where missing, and private."""

import os
import stat

import pytest

from daemon.errors import ConfigurationError
from daemon.paths import ensure_writable


def mode(directory):
    return stat.S_IMODE(directory.stat().st_mode)


@pytest.fixture(autouse=True)
def usual_mask():
    former = os.umask(0o022)
    yield
    os.umask(former)


def test_a_private_directory_is_made_for_this_user_alone(tmp_path):
    ensure_writable(tmp_path / "a" / "state", "state_dir", private=True)
    assert mode(tmp_path / "a" / "state") == 0o700


def test_one_that_others_could_read_is_closed_to_them(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o2775)
    ensure_writable(state, "state_dir", private=True)
    assert mode(state) == 0o2700


def test_any_other_directory_keeps_its_rights(tmp_path):
    other = tmp_path / "demo"
    other.mkdir()
    other.chmod(0o775)
    ensure_writable(other, "--directory")
    assert mode(other) == 0o775


def test_a_file_in_its_place_is_named(tmp_path):
    (tmp_path / "state").touch()
    with pytest.raises(ConfigurationError, match=r"state_dir: .* there is a file of that name"):
        ensure_writable(tmp_path / "state", "state_dir", private=True)
