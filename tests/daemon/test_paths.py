"""Directories of state: made where missing, and private."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.paths import (
    TEMPORARY_PREFIX,
    ensure_writable,
    own_temporary_directory,
    remove_abandoned,
)


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


# Temporary directories, with real processes.

USER = """
import os, sys, tempfile
from pathlib import Path
from levelwind.daemon.paths import own_temporary_directory
with own_temporary_directory():
    Path(tempfile.mkdtemp(), "file").touch()
    print(os.environ["TMPDIR"], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The temporary directory of this process and of those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def user(temporary):
    """A process that has a temporary directory of its own, and that directory."""
    command = (sys.executable, "-c", USER)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_process_has_its_temporary_files_in_a_directory_of_its_own(temporary, user):
    _, directory = user
    assert directory.parent == temporary
    assert mode(directory) == 0o700
    assert len(list(directory.glob("*/file"))) == 1


def test_the_directory_of_a_process_that_was_killed_is_removed(user):
    process, directory = user
    process.send_signal(signal.SIGKILL)
    process.wait()
    remove_abandoned()
    assert not directory.exists()


def test_the_directory_of_a_process_that_lives_is_kept(user):
    process, directory = user
    remove_abandoned()
    assert len(list(directory.glob("*/file"))) == 1
    process.communicate("")
    assert not directory.exists()


def test_what_is_no_directory_of_a_process_is_kept(temporary):
    others = temporary / "others"
    others.mkdir()
    (temporary / f"{TEMPORARY_PREFIX}link").symlink_to(others)
    (temporary / f"{TEMPORARY_PREFIX}file").touch()
    remove_abandoned()
    assert len(list(temporary.iterdir())) == 3


def test_a_directory_that_counted_as_abandoned_before_it_was_locked_is_made_again(
    temporary, monkeypatch
):
    make, made = tempfile.mkdtemp, []

    def swept_at_first(**options):
        made.append(make(**options))
        if len(made) == 1:
            remove_abandoned()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_first)
    with own_temporary_directory() as directory:
        assert len(made) == 2
        assert str(directory) == tempfile.gettempdir() == made[1]
    assert tempfile.gettempdir() == str(temporary)
