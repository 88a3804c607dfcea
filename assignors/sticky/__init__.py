"""`sticky`: balanced, near, and with as few moves as that allows; and what other strategies take from it.

`plan` is the strategy. `equal` and `unequal` make its plans, for members that read the same and for others: from scratch
round Kafka's `circle`, else what is held stays and the rest is sent near (`transport`) or filled up (`pour`). Then `chains`
bring near what is still far, and `cycles` make the plan the best of its kind, both over one `network` of who can pass what
to whom; `piles` are what members have to pass on.
"""

from assignors.sticky.sticky_plan import (
    kept_claims,
    sticky_owners,
    sticky_strategy,
)

__all__ = ["kept_claims", "sticky_owners", "sticky_strategy"]
