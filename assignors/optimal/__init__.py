"""`optimal`: lag, racks, balance and stability in one plan, with a certificate of how good it is."""

from assignors.optimal.plan import OptimalPlan, optimal, optimal_plan

__all__ = ["OptimalPlan", "optimal", "optimal_plan"]
