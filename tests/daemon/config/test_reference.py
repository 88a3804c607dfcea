"""The reference of the settings is generated, complete and up to date."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from levelwind.daemon.config import reference
from levelwind.daemon.config.settings import Settings

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
