"""The timers and what must hold between them."""

import pytest

from assignors.handover.timers import Timers


@pytest.mark.parametrize("factor", [0.01, 0.1, 1.0, 3.0])
def test_scaled_timers_keep_the_inequalities(factor):
    assert Timers().scaled(factor).grant == pytest.approx(Timers().grant * factor)


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ({"grant": 34.0}, "grant >= hold"),
        ({"hold": 30.0}, "grant >= hold"),
        ({"commit": 15.0}, "grant >= hold"),
        ({"guard": 12.0}, "hold - guard >= 3 x heartbeat"),
        ({"dead_after": 8.0}, "dead_after >= 3 x heartbeat"),
        ({"revoke_timeout": 12.0}, "revoke_timeout > commit"),
        ({"heartbeat": 0.0}, "every timer is above 0"),
        ({"guard": -1.0}, "every timer is above 0"),
    ],
)
def test_timers_that_would_be_unsafe_cannot_be_made(wrong, law):
    with pytest.raises(ValueError, match=law):
        Timers(**wrong)
