import json
import signal
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from levelwind.assignors.problem.inputs import ProblemError
from levelwind.daemon.cli.main import COMMANDS, main
from levelwind.daemon.cli.options import Duration, SettingsSource
from levelwind.daemon.shown_groups.group_view import GroupView
from levelwind.daemon.simulation.strategy.candidates import candidate
from levelwind_testing.records import lag

CJK = "\N{CJK UNIFIED IDEOGRAPH-4E2D}"


def levelwind(*arguments, stdin=None):
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture(autouse=True)
def own_signals():
    """Commands run in this process: `run` blocks a signal for its whole life."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    result = levelwind(command, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")


def test_the_list_of_commands_has_each_commands_own_name_and_short_help():
    with click.Context(main) as context:
        commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert commands.keys() == COMMANDS.keys()
    for name, command in commands.items():
        assert (command.name, command.short_help) == (name, COMMANDS[name].short_help)
        assert not command.hidden


def test_a_command_that_does_not_exist_is_wrong_usage_and_the_version_is_the_packages():
    result = levelwind("grops")
    assert result.exit_code == 2
    assert "No such command 'grops'" in result.output
    assert levelwind("--version").output == f"levelwind, version {version('levelwind')}\n"


def test_assign_answers_a_line_for_each_strategy_and_goes_on_after_a_broken_one():
    problem = {
        "id": "KAFKA-5337",
        "strategy": ["lag", "range"],
        "topics": {"t0": {"partitions": 3}},
        "members": {"C0": {"topics": ["t0"]}, "C1": {"topics": ["t0"]}},
        "lags": {"t0": [100_000, 60_000, 50_000]},
    }
    result = levelwind("assign", stdin="{broken\n" + json.dumps(problem) + "\n")
    broken, lag, ranged = map(json.loads, result.output.splitlines())
    assert "error" in broken
    assert lag["assignment"] == {"C0": {"t0": [0]}, "C1": {"t0": [1, 2]}}
    assert ranged["assignment"] == {"C0": {"t0": [0, 1]}, "C1": {"t0": [2]}}


def test_a_wrong_setting_ends_a_command_with_2_and_the_nearest_that_is_right():
    result = levelwind("groups", "--set", "control.min_gian=1")
    assert result.exit_code == 2
    assert "did you mean control.min_gain?" in result.output


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("members", [(), ("a",)])
def test_groups_says_so_where_the_pipeline_has_published_no_lag_yet(monkeypatch, form, members):
    views = {"g": GroupView("g", members=dict.fromkeys(members))} if members else {}
    monkeypatch.setattr("levelwind.daemon.inspection.show.read_views", lambda _: views)
    result = levelwind("groups", "--format", form)
    assert result.exit_code == 0
    assert "levelwind.lag holds no lag yet: the pipeline has published nothing" in result.stderr
    assert len(result.stdout.splitlines()) == len(views) * (1 if form == "json" else 2)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (("control=1", "control.min_gain=0.2"), "contradicts a value of control"),
        (("control.min_gain=0.2", "control=1"), "contradicts a setting within control"),
        (("bootstrap=a:1", "bootstrap.x=1"), "contradicts a value of bootstrap"),
        (("=1",), "'=1' names no setting"),
        (("control..min_gain=1",), "'control..min_gain=1' names no setting"),
    ],
)
def test_pairs_that_contradict_each_other_are_wrong_usage_and_no_bug(pairs, message):
    result = levelwind("groups", *(word for pair in pairs for word in ("--set", pair)))
    assert result.exit_code == 2
    assert message in result.output


def test_a_groups_name_may_have_dots_on_the_command_line_as_elsewhere():
    pairs = (
        "groups.eu.orders.v2.strategy=lag",
        "groups.a.strategy.strategy=range",
        "groups.b.strategy=fair",
    )
    settings = SettingsSource(pairs=pairs).read()
    assert {name: section.strategy for name, section in settings.groups.items()} == {
        "eu.orders.v2": "lag",
        "a.strategy": "range",
        "b": "fair",
    }


def test_an_option_wins_over_a_pair_that_names_the_same_setting():
    source = SettingsSource(bootstrap="named:1", pairs=("bootstrap=other:2", "bootstrap=last:3"))
    assert source.read().bootstrap == "named:1"
    assert source._replace(bootstrap=None).read().bootstrap == "last:3"


@pytest.mark.parametrize("order", [1, -1])
def test_the_options_of_the_log_win_over_pairs(monkeypatch, order):
    read = []
    monkeypatch.setattr(
        "levelwind.daemon.service.startup.run", lambda settings, *_: read.append(settings.log)
    )
    options = [
        ("--log-format", "json"),
        ("--set", "log.format=console"),
        ("--set", "log.level=error"),
    ]
    result = levelwind("run", *(word for option in options[::order] for word in option))
    assert (result.exit_code, result.output) == (0, "")
    assert [(log.format, log.level) for log in read] == [("json", "error")]


@pytest.mark.parametrize(
    ("named", "embedded"),
    [((), True), (("--bootstrap", "a:1"), False), (("--set", "bootstrap=a:1"), False)],
)
def test_a_demo_starts_brokers_unless_an_address_is_named(monkeypatch, tmp_path, named, embedded):
    demos = []
    monkeypatch.setattr(
        "levelwind.daemon.demo.demo.run_demo",
        lambda settings, arguments, **options: demos.append((settings, arguments, options)),
    )
    result = levelwind("demo", "--directory", str(tmp_path), *named)
    assert (result.exit_code, result.output) == (0, "")
    [(settings, arguments, options)] = demos
    assert options["embedded"] is embedded
    daemon = SettingsSource(bootstrap="of-the-demo:1", pairs=tuple(arguments[1::2])).read()
    assert daemon.bootstrap == "of-the-demo:1"
    assert embedded or settings.bootstrap == "a:1"


@pytest.mark.parametrize(("ended", "expected"), [(3, 3), (5, 5), (0, 1), (-9, 1)])
def test_a_demo_whose_daemon_ended_hands_on_its_exit_code(monkeypatch, tmp_path, ended, expected):
    class EndedDaemon:
        def __init__(self, *_):
            self.stop, self.poll = lambda: None, lambda: ended

    monkeypatch.setattr("levelwind.daemon.demo.demo.DaemonChild", EndedDaemon)
    monkeypatch.setattr("levelwind.daemon.demo.workload.create_topics", lambda *_: None)
    result = levelwind("demo", "--directory", str(tmp_path), "--bootstrap", "127.0.0.1:1")
    assert f"the daemon ended unexpectedly with exit code {ended}" in result.output
    assert result.exit_code == expected


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("pause", "g", "--reason", "caf\udce9"), "--reason"),
        (("rebalance", "g", "--reason", "caf\udce9"), "--reason"),
        (("pin", "g", "t/0", "m\udce9"), "MEMBER"),
        (("drain", "g", "--rack", "r\udce9"), "--rack"),
        (("describe", "g\udce9"), "GROUP"),
        (("acls", "--topic", "a", "--topic", "t\udce9"), "--topic"),
        (("groups", "--bootstrap", "h\udce9:1"), "--bootstrap"),
        (("groups", "--set", "prefix=p\udce9"), "--set"),
        (("simulate", "--set", "groups.g\udce9.strategy=lag"), "--set"),
    ],
)
def test_a_text_that_is_no_utf_8_is_wrong_usage_and_is_named(arguments, named):
    result = levelwind(*arguments)
    assert result.exit_code == 2
    assert named in result.output.splitlines()[-1]
    assert "is no UTF-8" in result.output


@pytest.mark.parametrize(
    ("form", "clears"), [("table", True), ("text", True), ("json", False), ("csv", False)]
)
@pytest.mark.parametrize("command", [("groups",), ("describe", "g")])
def test_text_is_table_also_where_it_is_watched(monkeypatch, command, form, clears):
    shown = []

    def watching(_settings, _seconds, *, clear):
        shown.append(clear)
        yield

    def show(*_, form, **__):
        shown.append(form)

    for name, stand_in in (("watching", watching), ("show_groups", show), ("show_group", show)):
        monkeypatch.setattr(f"levelwind.daemon.inspection.show.{name}", stand_in)
    assert levelwind(*command, "--watch", "2", "--format", form).exit_code == 0
    assert shown == [clears, "table" if form == "text" else form]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_a_file_of_a_command_is_utf_8_whatever_the_encoding_of_the_output(monkeypatch, encoding):
    runner = CliRunner(charset=encoding)
    name = f"\xfc-{CJK}"
    page = f'<meta charset="utf-8"><td>\N{GREATER-THAN OR EQUAL TO}20 of {name}</td>\n'
    monkeypatch.setattr("levelwind.daemon.assessment.observing.observe", lambda *_, **__: None)
    monkeypatch.setattr("levelwind.daemon.assessment.pages.html_page.html_page", lambda _: page)
    assert runner.invoke(main, ["assess", "--format", "html"]).stdout_bytes == page.encode()
    views = {name: GroupView(name, lags={"t": lag(5, group=name)})}
    monkeypatch.setattr("levelwind.daemon.inspection.show.read_views", lambda _: views)
    monkeypatch.setattr("levelwind.daemon.inspection.show.described_members", lambda *_: {})
    shown = runner.invoke(main, ["groups", "--format", "csv"]).stdout_bytes
    assert shown.decode().splitlines()[1].startswith(f"{name},t,0,")


def number_options():
    """Command, name and type of each option or argument that is a number or a duration."""
    for name in COMMANDS:
        with click.Context(main) as context:
            command = main.get_command(context, name)
        for parameter in command.params:
            if isinstance(parameter.type, click.FLOAT.__class__ | click.INT.__class__ | Duration):
                yield pytest.param(
                    name, parameter.opts[0], parameter.type, id=f"{name} {parameter.opts[0]}"
                )


ODD_NUMBERS = (
    *("nan", "-nan", "inf", "-inf", "infinity", "1e300", "-1e300", "1e999", "-1", "", "x", "0x1"),
    *("9" * 30, "9" * 5_000, "999999999h", "1" * 9 + "." + "1" * 9 + "h"),
)


@pytest.mark.parametrize(("command", "option", "kind"), [*number_options()])
def test_an_odd_number_of_an_option_is_wrong_usage(command, option, kind):
    for odd in ODD_NUMBERS:
        with pytest.raises(click.BadParameter):
            pytest.fail(f"{option} is {kind.convert(odd, None, None)}")
    assert levelwind(command, f"{option}=nan").exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--set", "state_dir={}"),
        ("demo", "--directory", "{}"),
        ("cluster", "--directory", "{}"),
    ],
)
def test_a_directory_that_cannot_be_made_is_wrong_usage_and_is_named(command, tmp_path):
    (tmp_path / "file").write_text("")
    directory = str(tmp_path / "file" / "below")
    result = levelwind(*(word.format(directory) for word in command))
    assert result.exit_code == 2
    assert f"cannot create {directory}" in result.output


def test_an_address_for_metrics_that_is_none_ends_the_start_before_the_cluster_is_asked(tmp_path):
    settings = (
        "--set",
        "topic.timeout=0.5",
        "--set",
        f"state_dir={tmp_path}",
        "--set",
        "metrics.listen=nope",
    )
    result = levelwind("run", "--bootstrap", "127.0.0.1:1", *settings)
    assert result.exit_code == 2
    assert "metrics.listen" in result.output


def test_a_picture_that_has_nowhere_to_go_is_refused_before_anything_is_played(tmp_path):
    path = tmp_path / "nowhere" / "x.png"
    for command in (("simulate", "--hours", "1000"), ("compare", "-")):
        result = levelwind(*command, "--chart", str(path), stdin="")
        assert result.exit_code == 2
        assert f"there is no directory {path.parent}" in result.output


def test_a_recording_that_cannot_be_written_is_refused_before_the_cluster_is_asked(tmp_path):
    result = levelwind(
        "record",
        "--bootstrap",
        "127.0.0.1:1",
        "--set",
        "topic.timeout=0.5",
        str(tmp_path / "no" / "x"),
    )
    assert result.exit_code == 2
    assert "No such file or directory" in result.output


def test_a_pair_without_an_equals_sign_is_wrong_usage():
    assert levelwind("groups", "--set", "control.min_gain").exit_code == 2


@pytest.mark.parametrize(
    "command", [("groups",), ("describe", "orders"), ("rebalance", "orders"), ("run",)]
)
def test_a_cluster_that_cannot_be_reached_ends_a_command_with_3_and_says_which(command, tmp_path):
    settings = ("--set", "topic.timeout=0.5", "--set", f"state_dir={tmp_path}")
    result = levelwind(*command, "--bootstrap", "127.0.0.1:1", *settings)
    assert result.exit_code == 3
    assert "levelwind: the cluster at 127.0.0.1:1 does not answer" in result.output


def test_settings_of_the_clients_may_have_dots_and_are_never_repeated():
    result = levelwind(
        "groups",
        "--set",
        "kafka.sasl.password=hunter2",
        "--set",
        "bootstrap=127.0.0.1:1",
        "--set",
        "topic.timeout=0.5",
    )
    assert result.exit_code in {2, 3}  # refused by the client, or by the cluster that is not there
    assert "hunter2" not in result.output


def test_a_demo_on_a_cluster_that_is_not_there_ends_with_3(tmp_path):
    result = levelwind(
        "demo",
        "--bootstrap",
        "127.0.0.1:1",
        "--directory",
        str(tmp_path),
        "--set",
        "topic.timeout=0.5",
    )
    assert result.exit_code == 3


@pytest.mark.parametrize(
    "given",
    ["{", "[" * 100_000, '{"target":' * 100_000, "1" * 5000],
    ids=["cut", "nested lists", "nested objects", "long"],
)
def test_a_saved_plan_that_is_no_json_is_wrong_usage(given, tmp_path):
    file = tmp_path / "plan.json"
    file.write_bytes(given.encode())
    result = levelwind("apply", "g", str(file))
    assert result.exit_code == 2
    assert f"{file}: is no JSON" in result.stderr


def test_a_candidates_option_that_is_nested_too_deeply_is_refused_by_its_strategy():
    with pytest.raises(ProblemError, match="max_moves"):
        candidate("optimal:max_moves=" + "[" * 100_000)


@pytest.mark.parametrize(
    "arguments",
    [
        ("config", "show"),
        ("config", "show", "--defaults"),
        ("config", "show", "--format", "json"),
        ("groups",),
        ("explain", "--partition", f"{CJK}/0"),
        ("compare",),
        ("assign",),
        ("describe", "--help"),
    ],
    ids=" ".join,
)
def test_a_name_that_the_terminal_cannot_show_is_printed_as_an_escape(
    arguments, tmp_path, monkeypatch
):
    views = {CJK: GroupView(CJK, members={CJK: None})}
    monkeypatch.setattr("levelwind.daemon.inspection.show.read_views", lambda _: views)
    file = tmp_path / "levelwind.toml"
    file.write_text(f'[groups."{CJK}"]\nstrategy = "lag"', encoding="utf-8")
    problem = {
        "id": CJK,
        "strategy": "lag",
        "topics": {CJK: {"partitions": 1}},
        "members": {CJK: {"topics": [CJK]}},
    }
    problems = tmp_path / "problems.jsonl"
    problems.write_text(json.dumps(problem))
    further = {
        "config": ["--config", str(file)],
        "explain": [str(problems)],
        "compare": [str(problems)],
        "assign": [str(problems)],
    }
    result = CliRunner(charset="latin-1").invoke(main, [*arguments, *further.get(arguments[0], [])])
    assert result.exit_code == 0, result.output
    assert "\\u" in result.stdout or "--help" in arguments


def test_a_group_that_the_settings_name_steers_no_terminal(tmp_path):
    file = tmp_path / "levelwind.toml"
    file.write_text('[groups."a\\u001bc"]\nstrategy = "lag"')
    assert "groups.a\\x1bc.strategy" in levelwind("config", "show", "--config", str(file)).stdout
