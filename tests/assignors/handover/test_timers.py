"""The timers and what must hold between them."""

import pytest

from levelwind.assignors.handover.timers import Timers


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
        ({"canary": 4.0}, "takeover >= 3 x canary"),
        ({"canary": 6.0, "takeover": 18.0}, "dead_after >= 3 x canary"),
        ({"longest_grant": 35.0}, "longest_grant >= grant"),
        ({"revoke_timeout": 12.0}, "revoke_timeout > commit"),
        ({"heartbeat": 0.0}, "every timer is above 0"),
        ({"guard": -1.0}, "every timer is above 0"),
        ({"longest_grant": float("inf")}, "at most 3155760000"),
        ({"heartbeat": float("nan")}, "every timer is above 0"),
        ({"takeover": 3601.0}, "takeover <= 3600"),
    ],
)
def test_timers_that_would_be_unsafe_cannot_be_made(wrong, law):
    with pytest.raises(ValueError, match=law):
        Timers(**wrong)


@pytest.mark.parametrize(
    ("own", "wait"),
    [
        ({"hold": 20.0, "commit": 12.0}, 36.0),
        ({"hold": 1.0, "commit": 1.0}, 36.0),
        ({"hold": 20.0, "commit": 30.0}, 20.0 * 1.001 / 0.999 + 2 + 30),
        ({"hold": 60.0, "commit": 12.0}, 60.0 * 1.001 / 0.999 + 2 + 12),
        ({"hold": 20.0, "commit": 12.0, "fenced": True}, 24.0),
        ({"hold": 60.0, "commit": 12.0, "fenced": True}, 60.0 * 1.001 / 0.999 + 2),
    ],
)
def test_the_planner_waits_by_the_larger_of_its_own_and_the_members_timers(own, wait):
    assert Timers().grant_for(**own) == pytest.approx(wait)


@pytest.mark.parametrize(("max_poll_interval", "patience"), [(1.0, 60.0), (300.0, 612.0)])
def test_a_revocation_waits_for_two_handlers_and_a_commit(max_poll_interval, patience):
    assert Timers().revoke_patience(max_poll_interval) == patience
