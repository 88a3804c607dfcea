"""Quantiles of measured delays."""

from collections.abc import Iterable

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}


def quantiles(delays: Iterable[float], *, digits: int = 2) -> str:
    """Their quantiles, in seconds; of one delay at least."""
    ordered = sorted(delays)
    at = {
        name: ordered[min(int(len(ordered) * share), len(ordered) - 1)]
        for name, share in QUANTILES.items()
    }
    return "  ".join(f"{name} {delay:.{digits}f} s" for name, delay in at.items())
