import pytest

from levelwind.daemon.config.settings import load
from levelwind.daemon.control.settings import EVERY
from levelwind.daemon.errors import ConfigurationError

OPTIONS = """
[groups."a.b"]
drain = ["b", "a"]
evacuate = ["r1"]
counts = "load"
count_slack = 1
load_tolerance = 0.1
load_floor = 5
cross_tolerance = 0.2
max_moves = 7
time_budget = 0.5
horizon = 30
[groups."a.b".pins."t.1"]
0 = "a"
12 = "b"
"""


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "levelwind.toml"
        path.write_text(text)
        return path

    return write


def test_what_a_group_sets_is_what_it_is_planned_with(toml):
    settings = load(toml(OPTIONS))
    planning = settings.planning_of("a.b")
    assert planning.strategy == "optimal"
    assert planning.options == {
        "pins": {"t.1": {"0": "a", "12": "b"}},
        "drain": ["b", "a"],
        "evacuate": ["r1"],
        "counts": "load",
        "count_slack": 1,
        "load_tolerance": 0.1,
        "load_floor": 5,
        "cross_tolerance": 0.2,
        "max_moves": 7,
        "time_budget": 0.5,
        "horizon": 30,
    }
    assert planning.record_bytes == {}
    assert settings.planning_of("other").options == {}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("record_bytes = 200", {EVERY: 200}),
        ('record_bytes = { t = 200, "*" = 50 }', {"t": 200, "*": 50}),
    ],
)
def test_records_have_one_size_or_one_by_topic(toml, text, sizes):
    assert load(toml(f"[groups.g]\n{text}")).planning_of("g").record_bytes == sizes


def test_the_command_line_gives_names_with_commas_between():
    settings = load(None, {"groups": {"g": {"drain": "a, b"}}})
    assert settings.planning_of("g").options == {"drain": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            'pins.t = { x = "a" }',
            (
                "groups.g: option pins: 't': a partition must be a number from 0 to"
                " 1000000000000000, not 'x'"
            ),
        ),
        (
            'pins.t = { -1 = "a" }',
            (
                "groups.g: option pins: 't': a partition must be a number from 0 to"
                " 1000000000000000, not '-1'"
            ),
        ),
        ("pins = { t = 1 }", "groups.g.pins.t: Input should be a valid dictionary (it is 1)"),
        ("pins.t = { 0 = 7 }", "groups.g.pins.t.0: Input should be a valid string (it is 7)"),
        ("drain = 3", "groups.g.drain: Input should be a valid list (it is 3)"),
        ("evacuate = [1]", "groups.g.evacuate.0: Input should be a valid string (it is 1)"),
        (
            "count_slack = -1",
            "groups.g.count_slack: Input should be greater than or equal to 0 (it is -1)",
        ),
        (
            "load_tolerance = inf",
            "groups.g.load_tolerance: Input should be a finite number (it is inf)",
        ),
        (
            "load_tolerance = 1e308",
            "groups.g.load_tolerance: Input should be less than or equal to",
        ),
        ("cross_tolerance = 1e308", "groups.g.cross_tolerance: Input should be less than"),
        ("horizon = 1e308", "groups.g.horizon: Input should be less than or equal to"),
        ("count_slack = 4611686018427387904", "groups.g.count_slack: Input should be less than"),
        ("record_bytes = 1e308", "groups.g.record_bytes"),
        (f'pins.t = {{ {"9" * 5000} = "a" }}', "groups.g: option pins: 't': a partition must be"),
        ("max_moves = 1.5", "groups.g.max_moves: Input should be a valid integer"),
        (
            "time_budget = -1",
            "groups.g.time_budget: Input should be greater than or equal to 0 (it is -1)",
        ),
        ("record_bytes = 0", "groups.g.record_bytes"),
        ("record_bytes = { t = 0 }", "groups.g.record_bytes"),
        (
            'strategy = "range"\ndrain = ["a"]',
            (
                "groups.g.drain: strategy 'range' takes no such option; leave it out,"
                " or let the group be planned by optimal"
            ),
        ),
        (
            'strategy = "lag"\nrecord_bytes = 100',
            (
                "groups.g.record_bytes: strategy 'lag' does not weigh traffic; leave it out,"
                " or let the group be planned by optimal"
            ),
        ),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_the_group_and_the_option(toml, text, error):
    with pytest.raises(ConfigurationError) as caught:
        load(toml(f"[groups.g]\n{text}"))
    assert str(caught.value).startswith(error)


def test_a_misspelt_option_names_the_nearest(toml):
    with pytest.raises(ConfigurationError, match=r"did you mean groups\.g\.evacuate\?"):
        load(toml("[groups.g]\nevacuated = []"))
