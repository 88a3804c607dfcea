"""`optimal`: lag, racks, balance and stability in one plan, with a certificate.

It knows groups and flows, but neither the wire nor the strategies' registry.
"""

from assignors.optimal.best_plan import OptimalPlan, optimal_plan, optimal_strategy
from assignors.optimal.certificate import Certificate, Objective
from assignors.optimal.explanation import Alternative, Explanation, explain
from assignors.optimal.model.work_budget import ClockCuts

__all__ = [
    "Alternative",
    "Certificate",
    "ClockCuts",
    "Explanation",
    "Objective",
    "OptimalPlan",
    "explain",
    "optimal_plan",
    "optimal_strategy",
]
