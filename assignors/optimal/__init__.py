"""`optimal`: lag, racks, balance and stability in one plan, with a certificate of how good it is."""

from assignors.optimal.certificate import Certificate, Objective
from assignors.optimal.explain import Explanation, Place, explain
from assignors.optimal.plan import OptimalPlan, optimal, optimal_plan

__all__ = [
    "Certificate",
    "Explanation",
    "Objective",
    "OptimalPlan",
    "Place",
    "explain",
    "optimal",
    "optimal_plan",
]
