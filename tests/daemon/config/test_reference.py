"""The reference of the settings is generated, complete and up to date."""

import json
import tomllib
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pytest

from levelwind.daemon.cli.options import SettingsSource
from levelwind.daemon.config import reference
from levelwind.daemon.config.settings import PASSED_THROUGH, Settings, load
from levelwind.daemon.config.shown import shown_settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
SETTINGS = {setting.path: setting for setting in reference.settings_of(Settings)}


@dataclass
class Bare:
    described: int = 1
    """Seconds, as in `a | b`,
    on two lines."""
    bare: int = 2


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == reference.page(), "run `make docs`"


def test_every_section_is_read():
    assert len(SETTINGS) >= 55
    first = {path.partition(".")[0] for path in SETTINGS}
    assert first == set(Settings.model_fields)


def test_a_setting_without_a_description_is_refused():
    settings = reference.settings_of(Bare, "bare.")
    assert next(settings).meaning == r"Seconds, as in `a \| b`, on two lines."
    with pytest.raises(ValueError, match=r"Bare\.bare has no docstring"):
        next(settings)


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("bootstrap", "`127.0.0.1:9092`"),
        ("observer.include", '`[".*"]`'),
        ("observer.detect_control_records", "true"),
        ("control.cooldown.moves_per_hour", "none"),
        ("groups.NAME.drain", "none"),
        ("topic.replication", "none"),
        ("metrics.listen", "empty"),
    ],
)
def test_defaults_are_shown_as_toml_has_them(path, default):
    assert SETTINGS[path].default == default


def test_the_options_of_a_group_show_the_defaults_of_optimal():
    rows = [line for line in reference.page().splitlines() if line.startswith("| `load_")]
    assert [row.split(" | ")[1] for row in rows] == ["0.02", "7.0"]


# Every setting, from every source.

VALUES = {
    "pipeline.checkpoint": "hdfs://host/levelwind",
    "pipeline.parallelism": 2,
    "pipeline.driver_port": 7080,
    "control.cooldown.moves_per_hour": {"skew": 200},
    "scaling.max_members": 5,
    "scaling.member_speed": 10.0,
    "groups.NAME.strategy": "range",
    "groups.NAME.reset_policy": "earliest",
    "groups.NAME.pins": {"orders": {"0": "a"}},
    "groups.NAME.drain": ["a", "b"],
    "groups.NAME.evacuate": ["a", "b"],
    "groups.NAME.counts": "even",
    "groups.NAME.count_slack": 2,
    "groups.NAME.load_tolerance": 0.1,
    "groups.NAME.load_floor": 7.0,
    "groups.NAME.cross_tolerance": 0.1,
    "groups.NAME.move_cost": 4.0,
    "groups.NAME.max_moves": 50,
    "groups.NAME.time_budget": 1.0,
    "groups.NAME.horizon": 20.0,
    "groups.NAME.record_bytes": {"orders": 1200.0},
    "groups.NAME.scaling.drain_within": 60.0,
    "groups.NAME.scaling.scale_down_after": 60.0,
    "groups.NAME.scaling.min_members": 1,
    "groups.NAME.scaling.max_members": 4,
    "groups.NAME.scaling.member_speed": 10.0,
    "topic.replication": 3,
    "http.tls_file": "/tls.pem",
    "http.token_file": "/tokens",
    "http.hosts": ["a", "b"],
}
"""A value of each setting that has none by default."""
OWN = [path for path in SETTINGS if not PASSED_THROUGH.match(path)]


def example(path):
    default = SETTINGS[path].default
    if path in VALUES:
        return VALUES[path]
    return "" if default == "empty" else tomllib.loads(f"x = {toml_of(default)}")["x"]


def toml_of(default):
    """The default as TOML has it: numbers, truths and lists are so on the page, other texts not."""
    bare = default.strip("`")
    return bare if bare == default or bare.startswith("[") else json.dumps(bare)


def tree_of(path, value):
    return reduce(lambda inner, name: {name: inner}, reversed(path.split(".")), value)


def leaves(path, value):
    """The single settings of a value, as the command line has them."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(f"{path}.{key}", item)]
    shown = value if isinstance(value, str) else json.dumps(value)
    return [(path, shown)]


def read(settings, path):
    return reduce(
        lambda inner, name: inner[name] if isinstance(inner, dict) else getattr(inner, name),
        path.split("."),
        settings,
    )


@pytest.mark.parametrize("path", OWN)
def test_every_setting_means_the_same_from_every_source(path, monkeypatch):
    value, path = example(path), path.replace("NAME", "orders")
    in_file = load(None, tree_of(path, value))  # a file is a tree of values, as TOML has them
    pairs = tuple(f"{name}={shown}" for name, shown in leaves(path, value))
    by_option = SettingsSource(None, None, pairs).read()
    variable = "LEVELWIND_" + path.replace(".", "__")
    shown = json.dumps(value) if isinstance(value, dict) else leaves(path, value)[0][1]
    monkeypatch.setenv(variable, shown)
    assert read(load(), path) == read(by_option, path) == read(in_file, path)


LISTS = [path for path in OWN if isinstance(example(path), list)]


def test_these_are_lists():
    assert LISTS == [
        "observer.include",
        "observer.exclude",
        "groups.NAME.drain",
        "groups.NAME.evacuate",
        "http.hosts",
    ]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a", ["a"]),
        (" a.*, b ,", ["a.*", "b"]),
        ('["a{1,2}", "b"]', ["a{1,2}", "b"]),
        ("[ab].*,c", ["[ab].*", "c"]),
        ("", []),
    ],
)
def test_a_list_is_a_text_with_commas_or_a_list_of_json(path, written, meant, monkeypatch):
    path = path.replace("NAME", "orders")
    by_option = SettingsSource(None, None, (f"{path}={written}",)).read()
    monkeypatch.setenv("LEVELWIND_" + path.replace(".", "__"), written)
    assert list(read(by_option, path)) == list(read(load(), path)) == meant


TABLES = {
    "kafka": {"security.protocol": "SSL", "sasl.password": "secret"},
    "pipeline.spark": {"spark.driver.memory": "2g"},
    "http": {"listen": "127.0.0.1:9470", "hosts": "a,b"},
    "control.cooldown": {"moves_per_hour": {"skew": 3}},
    "groups": {"orders.v2": {"drain": "a,b", "scaling": {"min_members": 2}}},
    "groups.orders": {"record_bytes": {"t": 9}},
}


@pytest.mark.parametrize("path", TABLES)
def test_a_whole_table_is_json_on_the_command_line_and_in_the_environment(path, monkeypatch):
    written = json.dumps(TABLES[path])
    in_file = tree_of(path, TABLES[path])
    option = SettingsSource(None, None, (f"{path}={written}",))
    assert option.read() == load(None, in_file)
    names = [(each.path, each.value) for each in shown_settings(None, in_file)]
    by_option = shown_settings(None, option.tree())
    assert [(each.path, each.value) for each in by_option] == names
    assert {each.origin for each in by_option} == {"command line"}
    monkeypatch.setenv("LEVELWIND_" + path.replace(".", "__"), written)
    assert load() == load(None, in_file)
    by_variable = shown_settings(None, {})
    assert [(each.path, each.value) for each in by_variable] == names
