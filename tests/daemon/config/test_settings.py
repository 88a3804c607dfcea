import pytest

from levelwind.daemon.config.settings import PipelineSection, Settings, load
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.errors import ConfigurationError


def refused(overrides=None, path=None):
    with pytest.raises(ConfigurationError) as caught:
        load(path, overrides)
    return str(caught.value)


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "levelwind.toml"
        path.write_text(text)
        return path

    return write


def test_without_anything_every_setting_has_its_default():
    settings = load()
    assert settings.bootstrap == "127.0.0.1:9092"
    assert settings.planning_of("any").strategy == "optimal"


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(toml, monkeypatch):
    file = toml("[control]\nmin_gain = 0.2\nsettle = 2\n[pipeline]\nskew_duration = 5")
    monkeypatch.setenv("LEVELWIND_CONTROL__MIN_GAIN", "0.3")
    monkeypatch.setenv("LEVELWIND_CONTROL__SETTLE", "3")
    settings = load(file, {"control": {"min_gain": "0.4"}})
    assert (
        settings.control.min_gain,
        settings.control.settle,
        settings.pipeline.skew_duration,
    ) == (
        0.4,
        3.0,
        5.0,
    )


def test_a_group_may_ask_for_a_strategy_of_its_own(toml):
    settings = load(toml('[groups."a.b"]\nstrategy = "range"'))
    assert (settings.planning_of("a.b").strategy, settings.planning_of("other").strategy) == (
        "range",
        "optimal",
    )


def test_budgets_are_by_cause(toml):
    settings = load(toml("[control.cooldown.moves_per_hour]\nskew = 5"))
    assert settings.control.cooldown.moves_per_hour == {Cause.SKEW: 5}


def test_client_settings_pass_through_verbatim_and_the_cluster_is_ours(toml):
    settings = load(toml('bootstrap = "k:1"\n[kafka]\n"security.protocol" = "SSL"'))
    assert settings.client() == {"security.protocol": "SSL", "bootstrap.servers": "k:1"}


def test_a_misspelt_key_names_the_nearest_and_where_it_stands(toml):
    file = toml("[control]\nmin_gian = 0.2")
    assert (
        refused(path=file)
        == f"{file}: control.min_gian is not a setting; did you mean control.min_gain?"
    )


def test_a_misspelt_section_too():
    assert "did you mean control?" in refused({"contrl": {"min_gain": 1}})


def test_a_misspelt_key_of_a_group_too():
    assert "did you mean groups.g.strategy?" in refused({"groups": {"g": {"stratgy": "lag"}}})


def test_a_misspelt_variable_of_ours_is_refused_too(monkeypatch):
    monkeypatch.setenv("LEVELWIND_CONTORL__MIN_GAIN", "0.3")
    assert refused() == "environment: contorl is not a setting; did you mean control?"


def test_an_unknown_strategy_names_those_there_are():
    text = refused({"control": {"strategy": "best"}})
    assert "'best' is no strategy" in text
    assert "lag" in text


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"control": {"min_gain": "much"}}, "control.min_gain"),
        ({"control": {"min_gain": 2}}, "control.min_gain"),
        ({"pipeline": {"skew_threshold": 0.5}}, "pipeline.skew_threshold"),
        ({"pipeline": {"end_kind": "low"}}, "pipeline.end_kind"),
        ({"control": {"cooldown": {"duration": -1}}}, "control.cooldown.duration"),
        ({"timers": {"grant": 1.0}}, "timers"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_key(overrides, key):
    assert refused(overrides).startswith(key)


def test_a_file_that_is_not_there_or_no_toml_is_said_to_be_so(toml, tmp_path):
    assert "cannot be read" in refused(path=tmp_path / "none.toml")
    assert "is not TOML" in refused(path=toml("= 3"))


def test_what_may_be_a_secret_is_not_repeated_when_it_is_refused(toml):
    assert "hunter2" not in refused(path=toml('[kafka.sasl]\npassword = "hunter2"'))


@pytest.mark.parametrize("table", ["kafka", "pipeline", "pipeline.kafka"])
def test_a_table_that_may_hold_a_secret_is_not_repeated_when_it_is_no_json(table):
    *around, name = table.split(".")
    tree = {name: '{"kafka": {"sasl.password": "hunter2"},}'}
    for outer in around:
        tree = {outer: tree}
    error = refused(tree)
    assert error.startswith(f"{table}: Input should be a ")
    assert "hunter2" not in error


def test_a_clients_setting_may_be_a_number_or_a_truth_as_toml_has_them(toml):
    file = toml(
        """
        [kafka]
        "socket.timeout.ms" = 3000
        "enable.ssl.certificate.verification" = false
        [pipeline]
        kafka = { "request.timeout.ms" = 5000 }
        spark = { "spark.ui.enabled" = true, "spark.memory.fraction" = 0.5 }
        """
    )
    settings = load(file)
    assert settings.kafka == {
        "socket.timeout.ms": "3000",
        "enable.ssl.certificate.verification": "false",
    }
    assert settings.pipeline.kafka == {"request.timeout.ms": "5000"}
    assert settings.pipeline.spark == {"spark.ui.enabled": "true", "spark.memory.fraction": "0.5"}
    assert "kafka.a" in refused({"kafka": {"a": ["x"]}})


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"replication": 0}, {"timeout": 0}])
def test_topics_that_no_cluster_would_make_are_refused_at_once(wrong):
    assert refused({"topic": wrong}).startswith(
        f"topic.{next(iter(wrong))}: Input should be greater than"
    )


@pytest.mark.parametrize("wrong", [" ", ",", "good:9092,other:99092", "good:http"])
def test_a_cluster_without_an_address_is_refused(wrong):
    """Not by the daemon that takes over, which needs connections of its own for the first time."""
    assert refused({"bootstrap": wrong}).startswith("bootstrap: ")


def test_sparks_client_is_given_each_broker_with_its_port():
    given = load(None, {"bootstrap": "kafka,SSL://other:9093/,::1,[::2]:1"})
    expected = "kafka:9092,other:9093,[::1]:9092,[::2]:1"
    assert given.pipeline_settings(()).bootstrap == expected


def test_the_checkpoint_is_a_directory_of_the_state_or_a_uri_of_any_file_system(tmp_path):
    here = Settings(state_dir=tmp_path).pipeline_settings(())
    assert (here.checkpoint, here.parallelism) == (tmp_path / "checkpoint", 0)
    section = PipelineSection(checkpoint="hdfs://host/levelwind", parallelism=8, driver_port=7080)
    elsewhere = Settings(state_dir=tmp_path, pipeline=section).pipeline_settings(())
    assert elsewhere.checkpoint == "hdfs://host/levelwind"
    assert (elsewhere.parallelism, elsewhere.driver_port) == (8, 7080)
