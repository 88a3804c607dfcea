"""The lines of many groups are what each group alone would be written as."""

import numpy as np
import pytest

from streaming.messages import lag_json, own_fields
from streaming.messages.lag_json import OwnFields


def matrices(groups: int, partitions: int, seed: int) -> dict[str, np.ndarray]:
    """Columns of some groups: every third group has something of each optional field."""
    random = np.random.default_rng(seed)
    shape = (groups, partitions)
    numbers = {
        name: random.integers(-1, 10**12, shape) for name in ("committed", "committed_at", "lag")
    }
    every_third = (np.arange(groups) % 3 == 0)[:, None]
    masks = {
        name: (random.random(shape) < 0.5) & every_third
        for name in ("lag_upper_bound", "reset", "seconds_lower_bound", "stale", "uncommitted")
    }
    figures = {
        name: np.where(random.random(shape) < 0.3, np.nan, random.integers(0, 10**5, shape) / 100)
        for name in ("seconds", "velocity")
    }
    figures["velocity"][: groups // 2] = np.nan
    return {**numbers, "lost": np.zeros(shape, np.int64), **masks, **figures}


def alone(columns: dict[str, np.ndarray], group: int, source: str) -> OwnFields:
    """The fields of one group, joined one by one."""
    row = {name: column[[group]] for name, column in columns.items()}

    def lists(name: str) -> str:
        return lag_json.integers(row[name])[0]

    def indices(name: str) -> str | None:
        return lag_json.set_indices(row[name])[0] if row[name].any() else None

    def figures(name: str) -> str | None:
        return lag_json.decimals(row[name])[0]

    return OwnFields(
        lag_json.fields(("committed", lists("committed")), ("committed_at", lists("committed_at"))),
        lag_json.fields(("lag", lists("lag")), ("lag_upper_bound", indices("lag_upper_bound"))),
        lag_json.fields(("lost", lists("lost"))),
        lag_json.fields(
            ("reset", indices("reset")),
            ("seconds", figures("seconds")),
            ("seconds_lower_bound", indices("seconds_lower_bound")),
            ("source", source),
            ("stale", indices("stale") or "[]"),
        ),
        lag_json.fields(("velocity", figures("velocity"))),
        indices("uncommitted") or "",
    )


@pytest.mark.parametrize(("groups", "partitions"), [(1, 1), (2, 3), (7, 5), (90, 7), (5, 0)])
def test_the_lines_of_many_groups_are_those_of_each(groups: int, partitions: int) -> None:
    columns = matrices(groups, partitions, seed=groups)
    sources = [f'{{"offsets/ü":{group}}}' for group in range(groups)]
    lines = own_fields.own_lines(source=sources, **columns)
    expected = [alone(columns, group, sources[group]) for group in range(groups)]
    assert own_fields.fields_of(own_fields.text_of(lines)) == expected


def test_the_lines_of_some_groups_are_taken_in_their_order() -> None:
    columns = matrices(20, 4, seed=3)
    lines = own_fields.own_lines(source=["{}"] * 20, **columns)
    whole = own_fields.fields_of(own_fields.text_of(lines))
    assert own_fields.fields_of(own_fields.text_of(lines.take([4, 2, 17]))) == [
        whole[4],
        whole[2],
        whole[17],
    ]
    assert own_fields.fields_of(own_fields.text_of(lines.slice(5, 3))) == whole[5:8]
    assert own_fields.fields_of(own_fields.text_of(lines.slice(5, 0))) == []


def test_groups_without_any_optional_field_share_their_texts() -> None:
    none = np.zeros((300, 3), np.bool_)
    zeros = np.zeros((300, 3), np.int64)
    lines = own_fields.own_lines(
        committed=zeros,
        committed_at=zeros,
        lag=zeros,
        lag_upper_bound=none,
        lost=zeros,
        reset=none,
        seconds=zeros.astype(np.float64),
        seconds_lower_bound=none,
        source=["{}"] * 300,
        stale=none,
        velocity=np.full((300, 3), np.nan),
        uncommitted=none,
    )
    assert set(own_fields.fields_of(own_fields.text_of(lines))) == {
        OwnFields(
            ',"committed":[0,0,0],"committed_at":[0,0,0]',
            ',"lag":[0,0,0]',
            ',"lost":[0,0,0]',
            ',"seconds":[0,0,0],"source":{},"stale":[]',
            "",
        )
    }
