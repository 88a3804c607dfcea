"""The evidence of skew as its record has it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from levelwind.streaming.group.skew_trigger import _evidence
from levelwind.streaming.rules.skew import SkewRule


def evidence_of(rate: float, capacity: float) -> Any:
    loads: Any = SimpleNamespace(
        load=np.array([300.0, 0.0]),
        lag=np.array([3, 0]),
        rate=np.array([rate, 0.0]),
        capacity=np.array([capacity, capacity]),
        horizon=60.0,
    )
    figures: Any = SimpleNamespace(
        heaviest=300.0, best=150.0, utilisation=0.5, best_utilisation=0.25, assumed=False
    )
    owners: Any = (SimpleNamespace(name="m0"), SimpleNamespace(name="m1"))
    return _evidence(owners, loads, figures, SkewRule())


@pytest.mark.parametrize(
    ("rate", "shown"), [(0.000123456, 0.000123), (0.25, 0.25), (1234.56789, 1234.568)]
)
def test_no_rate_of_a_slow_member_is_rounded_to_0(rate: float, shown: float) -> None:
    evidence = evidence_of(rate, 2 * rate)
    assert evidence.arrivals == evidence.members["m0"].arrivals == shown
    assert evidence.members["m1"].arrivals == 0
    assert evidence.members["m0"].capacity == pytest.approx(2 * rate, rel=0.01)
    assert evidence.capacity == pytest.approx(4 * rate, rel=0.01)
