"""Tables of patterns: which one holds for a group, and what they may not have."""

import pytest

from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ConfigurationError


def settings(tmp_path, text):
    path = tmp_path / "levelwind.toml"
    path.write_text(text)
    return load(path)


TABLES = """
[groups."orders-*"]
strategy = "range"
[groups."orders-eu-*"]
strategy = "sticky"
[groups."orders-eu-1"]
max_moves = 3
[groups."pay?"]
strategy = "fair"
"""


@pytest.mark.parametrize(
    ("group", "strategy"),
    [
        ("orders-us", "range"),
        ("orders-eu-2", "sticky"),  # the longest pattern
        ("orders-eu-1", "optimal"),  # its own table, and nothing of the patterns
        ("pay1", "fair"),
        ("pay12", "optimal"),
        ("xorders-1", "optimal"),
    ],
)
def test_its_own_table_holds_before_the_longest_pattern(tmp_path, group, strategy):
    assert settings(tmp_path, TABLES).planning_of(group).strategy == strategy


def test_of_two_patterns_of_one_length_the_first_by_name_holds(tmp_path):
    found = settings(tmp_path, '[groups."a*"]\nstrategy="range"\n[groups."*b"]\nstrategy="fair"')
    assert found.planning_of("ab").strategy == "fair"


def test_a_mode_holds_for_the_groups_of_a_pattern(tmp_path):
    modes = settings(
        tmp_path,
        '[groups."w-*"]\nmode="advisory"\n[groups."w-own"]\nmode="managed"\n[groups.p]\nmode="proxy"',
    ).watched_modes()
    assert modes.get("w-1") == "advisory"
    assert "w-own" not in modes
    assert modes.get("other", "managed") == "managed"
    assert dict(modes) == {"p": "proxy"}


@pytest.mark.parametrize(
    ("text", "setting"),
    [('mode = "proxy"', "mode"), ('reset_policy = "latest"', "reset_policy")],
)
def test_what_needs_the_names_of_groups_is_refused_in_a_pattern(tmp_path, text, setting):
    with pytest.raises(ConfigurationError, match=rf"groups\.a\*\.{setting}"):
        settings(tmp_path, f'[groups."a*"]\n{text}')


def test_an_option_that_the_strategy_of_a_pattern_does_not_take_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="takes no such option"):
        settings(tmp_path, '[groups."a*"]\nstrategy = "range"\nmax_moves = 1')
