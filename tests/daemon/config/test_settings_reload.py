"""SIGHUP: the settings are read again."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from levelwind.daemon.config import settings_reload
from levelwind.daemon.config.settings import load
from levelwind.daemon.config.settings_reload import SettingsReload, reload_on_signal
from levelwind.daemon.errors import ConfigurationError


@pytest.fixture
def logged(log, monkeypatch):
    monkeypatch.setattr(settings_reload, "log", log)
    monkeypatch.setattr(settings_reload.log_config, "set_level", lambda _: None)
    return log.events


def test_a_signal_has_the_settings_read_again_and_says_what_changed(logged):
    read = load(None, {"bootstrap": "k:1", "groups": {"g": {"drain": "m"}}})
    reload = SettingsReload(load(), lambda: read)
    before = signal.getsignal(signal.SIGHUP)
    with reload_on_signal(reload):
        assert reload.take() is None
        os.kill(os.getpid(), signal.SIGHUP)
        change = reload.take()
        assert reload.take() is None
    assert signal.getsignal(signal.SIGHUP) == before
    assert change.planning_of("g").options == {"drain": ["m"]}
    assert reload.settings.bootstrap == load().bootstrap
    changed, needed = logged
    assert changed["event"] == "config.reloaded"
    assert "groups.g.drain" in changed["changed"]
    assert needed == {
        "event": "config.restart_needed",
        "level": "warning",
        "settings": ["bootstrap"],
    }


def test_a_signal_before_the_handler_is_set_is_kept_for_it(logged):
    reload = SettingsReload(load(), lambda: load(None, {"bootstrap": "k:1"}))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        with reload_on_signal(reload):
            assert reload.take()
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)  # the daemon is about to end
        assert signal.SIGHUP in signal.sigpending()
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_signal_while_the_daemon_reads_its_settings_does_not_end_it(tmp_path):
    file = tmp_path / "levelwind.toml"
    os.mkfifo(file)
    command = [sys.executable, "-m", "levelwind.daemon.cli.main", "run", "--config", str(file)]
    daemon = subprocess.Popen(command, stderr=subprocess.PIPE)
    with file.open("w", encoding="utf-8") as settings:  # waits for the reader
        daemon.send_signal(signal.SIGHUP)
        settings.write("no_setting = 1\n")
    assert "no_setting" in daemon.communicate()[1].decode()
    assert daemon.returncode == ConfigurationError.exit_code


def test_settings_that_are_wrong_change_nothing(logged):
    def wrong():
        raise ConfigurationError("control.min_gian is not a setting")

    reload = SettingsReload(load(), wrong)
    reload.ask()
    assert reload.take() is None
    refused = {"event": "config.refused", "level": "error"}
    assert logged == [{**refused, "error": "control.min_gian is not a setting"}]


def test_a_process_that_reads_its_settings_once_refuses(logged):
    reload = SettingsReload(load(), None)
    reload.ask()
    assert reload.take() is None
    assert logged[0]["event"] == "config.refused"
