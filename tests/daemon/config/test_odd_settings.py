"""Values that no setting expects: each is taken, or refused by its setting's name."""

import datetime as dt
import math

import pytest

from levelwind.daemon.config import settings_reload
from levelwind.daemon.config.reference import settings_of
from levelwind.daemon.config.settings import Settings, load
from levelwind.daemon.config.settings_reload import SettingsReload
from levelwind.daemon.errors import ConfigurationError

ODD = (
    *("", "lag", "\N{CJK UNIFIED IDEOGRAPH-4E2D}", "\x00", "[", "*", "inf", "nan"),
    *(True, 0, -1, 10**30, 10**400),
    *(0.0, -0.5, 1e-300, 1e300, math.inf, -math.inf, math.nan),
    *([], [1], {}, {"a": 1}, {"a": {"b": 1}}, {"a": {"b": "c"}}, {"*": 1}),
    *(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1)),
)
"""Values as a TOML file can have them."""


def paths():
    """Each setting's path and that of each table, with `g` for a group, by the first name."""
    found = {}
    for setting in settings_of(Settings):
        names = setting.path.replace(".NAME.", ".g.").split(".")
        for length in range(1, len(names) + 1):
            found.setdefault(names[0], {})[tuple(names[:length])] = None
    return found


PATHS = paths()


def loaded(first):
    """Load each odd value of the settings below a first name: settings, or why they are refused."""
    for path in PATHS[first]:
        for value in ODD:
            tree = value
            for name in reversed(path):
                tree = {name: tree}
            try:
                yield load(None, tree)
            except ConfigurationError as error:
                yield str(error)


@pytest.mark.parametrize("first", PATHS)
def test_each_value_is_taken_or_refused_by_name(first):
    assert all(isinstance(found, Settings) or first in found for found in loaded(first))


@pytest.mark.parametrize("value", ["lag", "{", "", "[" * 100_000], ids=range(4))
def test_a_variable_that_is_no_table_is_refused_by_name(value, monkeypatch):
    for table in ("LOG", "KAFKA", "GROUPS", "GROUPS__ORDERS"):
        with monkeypatch.context() as environment:
            environment.setenv(f"LEVELWIND_{table}", value)
            with pytest.raises(ConfigurationError):
                load()


def test_the_variable_of_a_table_is_refused_without_its_value(monkeypatch):
    monkeypatch.setenv("LEVELWIND_KAFKA", "s3cret")
    with pytest.raises(ConfigurationError, match='"kafka"') as caught:
        load()
    assert "s3cret" not in str(caught.value)
    assert "LEVELWIND_TABLE__SETTING" in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        '[groups]\norders = "lag"',
        "groups = 1",
        "log = 3",
        "a = " + "[" * 100_000,
        "a = " + "1" * 5000,
    ],
    ids=["a group that is a text", "groups", "log", "deep", "long"],
)
def test_a_wrong_file_leaves_a_running_daemon_its_settings(wrong, tmp_path, log, monkeypatch):
    monkeypatch.setattr(settings_reload, "log", log)
    file = tmp_path / "levelwind.toml"
    file.write_text('[groups.orders]\nstrategy = "lag"')
    before = load(file)
    reload = SettingsReload(before, lambda: load(file))
    file.write_text(wrong)
    reload.ask()
    assert reload.take() is None
    assert reload.settings is before
    assert [event["event"] for event in log.events] == ["config.refused"]
