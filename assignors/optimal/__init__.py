"""`optimal`: lag, racks, balance and stability in one plan, with a certificate of how good it is."""

from assignors.optimal.best_plan import (
    OptimalPlan,
    optimal_plan,
    optimal_strategy,
)
from assignors.optimal.certificate import Certificate, Objective
from assignors.optimal.explanation import (
    Explanation,
    Place,
    explain,
)

__all__ = [
    "Certificate",
    "Explanation",
    "Objective",
    "OptimalPlan",
    "Place",
    "explain",
    "optimal_plan",
    "optimal_strategy",
]
