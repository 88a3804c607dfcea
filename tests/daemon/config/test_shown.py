"""Settings as they are shown, and what a reload of them changes."""

import json

import pytest
from click.testing import CliRunner

from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import load
from levelwind.daemon.config.shown import reloaded, shown_settings


def rows(*arguments):
    done = CliRunner().invoke(main, ["config", "show", "--format", "json", *arguments])
    assert done.exit_code == 0, done.output
    return {row["path"]: row for row in map(json.loads, done.output.splitlines())}


def test_each_setting_is_shown_with_its_source_and_secrets_are_masked(tmp_path, monkeypatch):
    file = tmp_path / "levelwind.toml"
    file.write_text(
        'bootstrap = "k:1"\n[kafka]\n"sasl.password" = "s3cret"\n"sasl.username" = "u"\n'
        '[pipeline.kafka]\n"sasl.jaas.config" = "s3cret"\n[groups.g]\ndrain = ["m"]\n'
    )
    monkeypatch.setenv("LEVELWIND_CONTROL__SETTLE", "3")
    found = rows("--config", str(file), "--set", "control.min_gain=0.3")
    assert found["bootstrap"] == {"path": "bootstrap", "value": "k:1", "origin": str(file)}
    assert found["control.settle"]["origin"] == "environment"
    assert found["control.min_gain"] == {
        "path": "control.min_gain",
        "value": 0.3,
        "origin": "command line",
    }
    assert found["kafka.sasl.username"]["value"] == "u"
    assert found["groups.g.drain"]["value"] == ["m"]
    assert "s3cret" not in json.dumps(found)
    assert "log.level" not in found
    assert rows("--defaults")["log.level"]["origin"] == "default"


def test_what_the_java_client_is_given_is_shown_without_secrets(tmp_path):
    (tmp_path / "p").write_text("s3cret")
    found = rows(
        *("--java", "--set", "kafka.security.protocol=SASL_PLAINTEXT"),
        *("--set", "kafka.sasl.mechanism=PLAIN", "--set", "kafka.sasl.username=u"),
        *("--set", f"kafka.sasl.password_file={tmp_path / 'p'}"),
    )
    assert found["java.sasl.mechanism"]["value"] == "PLAIN"
    assert found["kafka.sasl.password_file"]["value"] == str(tmp_path / "p")
    assert "s3cret" not in json.dumps(found)


def test_the_check_reads_files_and_derives_the_java_clients_settings():
    done = CliRunner().invoke(main, ["config", "check"])
    assert (done.exit_code, "valid" in done.output) == (0, True)
    for pair, text in (
        ("kafka.sasl.password_file=/none", "No such file"),
        ("control.min_gian=1", "did you mean"),
        ("observer.include=*-tmp", "not a regular expression"),
        ("metrics.listen=9100", "not ADDRESS:PORT"),
        ("http.listen=9100", "not ADDRESS:PORT"),
    ):
        done = CliRunner().invoke(main, ["config", "check", "--set", pair])
        assert done.exit_code == 2
        assert text in done.output
    done = CliRunner().invoke(
        main,
        [
            *("config", "check", "--set", "kafka.security.protocol=SASL_SSL"),
            *("--set", "kafka.sasl.mechanism=GSSAPI"),
        ],
    )
    assert "sasl.jaas.config" in done.output
    assert done.exit_code == 2


def test_a_reload_takes_what_it_can_and_names_the_rest():
    before = load(None, {"groups": {"g": {"mode": "advisory"}, "h": {"drain": "m"}}})
    read = load(
        None,
        {
            "bootstrap": "other:1",
            "control": {"min_gain": 0.5},
            "log": {"level": "debug", "format": "json"},
            "groups": {"g": {"strategy": "range"}, "n": {"mode": "published"}},
        },
    )
    found = reloaded(before, read)
    assert set(found.changed) >= {"control.min_gain", "groups.g.strategy", "groups.h.drain"}
    assert "log.level" in found.changed
    assert set(found.restart_needed) >= {"bootstrap", "groups.g.mode", "log.format"}
    now = found.settings
    assert (now.bootstrap, now.log.format) == (before.bootstrap, "auto")
    assert (now.control.min_gain, now.log.level) == (0.5, "debug")
    assert now.planning_of("g").strategy == "range"
    assert now.planning_of("h").options == {}
    assert dict(now.watched_modes()) == {"g": "advisory"}


def test_a_table_that_takes_a_group_out_of_a_pattern_changes_its_mode_with_a_restart_only():
    pattern = {"mode": "advisory", "drain": "m"}
    apart = {"pay-*": pattern, "pay-x": {"strategy": "range"}}
    for before, read in (({"pay-*": pattern}, apart), (apart, {"pay-*": pattern})):
        old, new = (load(None, {"groups": tables}) for tables in (before, read))
        found = reloaded(old, new)
        assert "groups.pay-x.mode" in found.restart_needed
        assert "groups.pay-x.strategy" in found.changed
        assert found.settings.watched_modes().get("pay-x") == old.watched_modes().get("pay-x")
        assert found.settings.planning_of("pay-x") == new.planning_of("pay-x")


@pytest.mark.parametrize(
    "changed",
    [
        {"http": {"hosts": "levelwind.internal"}},
        {"http": {"token_file": "tokens"}},
        {"metrics": {"partitions": True}},
        {"metrics": {"cluster_name": "other"}},
        {"scaling": {"min_members": 2}},
        {"groups": {"g": {"scaling": {"min_members": 2}}}},
        {"observer": {"exclude": ["private.*"]}},
        {"proxy": {"retry": 2.0}},
        {"state_dir": "elsewhere"},
    ],
    ids=str,
)
def test_what_the_server_and_the_metrics_keep_until_a_restart_is_named(changed):
    before = load(None, {"groups": {"g": {}}})
    found = reloaded(before, load(None, {"groups": {"g": {}}, **changed}))
    ((table, inner),) = changed.items()
    assert len(found.restart_needed) == 1
    assert found.restart_needed[0].startswith(table)
    assert found.changed == []
    assert inner
    assert found.settings.model_dump() == before.model_dump()


def test_a_reload_of_the_same_settings_changes_nothing():
    settings = load(None, {"groups": {"g": {"drain": "m"}}})
    assert reloaded(settings, load(None, {"groups": {"g": {"drain": "m"}}}))[1:] == ([], [])
    assert shown_settings(None, {}) == []
