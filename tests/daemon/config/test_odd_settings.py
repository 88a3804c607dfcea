"""Values that no setting expects: each is taken, or refused by its setting's name."""

import datetime as dt
import math
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from levelwind.assignors.handover.timers import MAX_TIMER_SECONDS
from levelwind.assignors.registry import STRATEGIES
from levelwind.daemon.config import settings_reload
from levelwind.daemon.config.reference import settings_of
from levelwind.daemon.config.settings import Settings, load
from levelwind.daemon.config.settings_reload import SettingsReload
from levelwind.daemon.control.gain.cooldown import CauseCooldown, CooldownState
from levelwind.daemon.control.gain.scaling import members_needed
from levelwind.daemon.control.plan_record import planned_cooldown
from levelwind.daemon.control.policy import PolicyState
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.kafka.topic_specs import expected_topics
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.daemon.wall_clock import now_ms

NOW = 100.0
YEAR_10000_MS = 253_402_300_800_000

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


def tree_of(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def loaded(first):
    """Load each odd value of the settings below a first name: settings, or why they are refused."""
    for path in PATHS[first]:
        for value in ODD:
            try:
                yield load(None, tree_of(path, value))
            except ConfigurationError as error:
                yield str(error)


def derive(settings):
    """Compute what the daemon computes of its settings when it starts, and in its first steps."""
    for compute in (settings.client, settings.java_client, partial(settings.pipeline_settings, ())):
        with suppress(ConfigurationError):  # files that are named and absent
            compute()
    order = PipelineOrder(settings=settings, jars=())
    assert PipelineOrder.model_validate_json(order.model_dump_json()) == order
    expected_topics(settings.topics, settings.topic, 3)
    assert settings.planning_of("g").strategy in STRATEGIES
    settings.proxied_groups()
    one = np.ones(1)
    float(members_needed(one, one, 1, 2.0, settings.scaling_of("g")))
    if speed := settings.scaling_of("g").member_speed:
        members_needed(one, one, 1, speed, settings.scaling_of("g"))
    observer, control = settings.observer, settings.control
    assert min(observer.unchanged_sample_every, observer.begin_offsets_every) > 0
    for interval in (observer.metadata_interval, observer.offsets_interval):
        dt.datetime.now(dt.UTC) + dt.timedelta(seconds=interval)
    for pause in (control.cooldown.duration, control.cooldown.max_duration):
        cooldown = CauseCooldown(until=NOW + pause, pause=pause)
        policy = PolicyState(cooldown=CooldownState(causes={Cause.SKEW: cooldown}))
        planned = planned_cooldown(policy, NOW, now_ms())
        assert 0 <= planned.pause_ms < planned.until < YEAR_10000_MS
    round(settings.timers.takeover * 1000)


@pytest.mark.parametrize("first", PATHS)
def test_each_value_is_refused_by_name_or_survives_the_start(first):
    for found in loaded(first):
        if isinstance(found, Settings):
            derive(found)
        else:
            assert first in found


WITHOUT_UNIT = {
    "pipeline.skew_threshold",
    "pipeline.skew_utilisation",
    "commits.requests_per_second",
    "observer.max_cpu_share",
    "scaling.member_speed",
    "groups.g.scaling.member_speed",
}
"""Numbers that may be of any size, since they are only compared or divided by."""


def test_no_number_is_infinite_and_no_duration_longer_than_a_century():
    names = [name for below in PATHS.values() for name in below]
    unbounded = {".".join(name) for name in names if takes(name, 1e300)}
    assert unbounded == WITHOUT_UNIT
    assert not [name for name in names for value in (math.inf, math.nan) if takes(name, value)]


def takes(path, value):
    try:
        load(None, tree_of(path, value))
    except ConfigurationError:
        return False
    return True


def test_a_century_is_as_good_as_never_and_nought_still_switches_off():
    for path in (("control", "cooldown", "duration"), ("control", "lag_max_age")):
        assert takes(path, MAX_TIMER_SECONDS)
    derive(load(None, {"control": {"cooldown": {"duration": MAX_TIMER_SECONDS}}}))
    for path in (("pipeline", "trigger_interval"), ("pipeline", "calm_interval")):
        assert takes(path, 0)


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
    ("name", "value"),
    [
        ("LEVELWIND_PREFIX", "lw\udcff."),
        ("LEVELWIND_GROUPS__ORDERS__DRAIN", "m\udcff"),
        ("LEVELWIND_KAFKA", '{"sasl.password": "s3cret\udcff"}'),
        ("levelwind_prefix", "lw\udcff."),
    ],
)
def test_a_variable_that_is_no_utf_8_is_refused_by_its_name(name, value, monkeypatch):
    monkeypatch.setenv("LEVELWIND_JAVA_HOME", "/opt/caf\udce9")  # of the set-up, which takes any
    load()
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"^environment: {name} is no UTF-8$"):
        load()


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
