"""The daemon of a demo, as a child process."""

import pytest

from levelwind.daemon.config.settings import Settings
from levelwind.daemon.demo.demo import daemon_command


@pytest.mark.parametrize(
    ("level", "logged"),
    [("debug", "debug"), ("info", "info"), ("warning", "info"), ("error", "info")],
)
def test_it_logs_what_is_narrated_and_waited_for_whatever_its_settings_name(level, logged):
    settings = Settings.model_validate({"log": {"level": level, "format": "console"}})
    arguments = ["--set", f"log.level={level}", "--set", "log.format=console"]
    command = daemon_command(settings, arguments)
    assert command[command.index("--log-level") + 1] == logged
    assert command[command.index("--log-format") + 1] == "json"
