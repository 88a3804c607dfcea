"""`optimal`: lag, racks, balance and stability in one plan, with a certificate.

It knows groups and flows, but neither the wire nor the strategies' registry.
"""

from levelwind.assignors.optimal.best_plan import OptimalPlan, optimal_plan, optimal_strategy
from levelwind.assignors.optimal.certificate import Certificate, Objective
from levelwind.assignors.optimal.explanation import Alternative, Explanation, explain
from levelwind.assignors.optimal.model.work_budget import ClockCuts

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
