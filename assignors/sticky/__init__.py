"""`sticky`: balanced, rack-local, with minimal movement; and the parts that other strategies reuse.

`sticky_plan` is the strategy. `equal_subscriptions` and `mixed_subscriptions` compute its owners:
from scratch as `kafka_walk` does, otherwise keeping claims, placing the rest rack-locally
(`rack_flow`) or with the least loaded readers (`fill`). `transfer_chains` then makes remote
partitions local, and `transfer_cycles` makes the plan optimal among plans of equal loads; both
search the `transfer_graph` over each member's `member_stacks`. The package knows the problem, but
no strategy and no wire.
"""

from levelwind.assignors.sticky.sticky_plan import kept_claims, sticky_owners, sticky_strategy

__all__ = ["kept_claims", "sticky_owners", "sticky_strategy"]
