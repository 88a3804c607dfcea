"""Types of durations in settings, with bounds beyond which no value means anything.

The longest is a century, as for the timers of the hand-over. That is as good as never: in
milliseconds it fits into every record and every client, and the wall clock plus a century has a
date. What is to be never is a large number, not infinity, which neither a record nor JSON has.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from levelwind.assignors.handover.timers import MAX_TIMER_SECONDS

MAX_REQUEST_SECONDS = 3600.0
"""The longest time-out of a request that librdkafka takes."""

Seconds = Annotated[float, Field(ge=0, le=MAX_TIMER_SECONDS, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(ge=0.001, le=MAX_TIMER_SECONDS, allow_inf_nan=False)]
"""A duration that cannot be 0; a millisecond is the unit of records and clients."""
RequestSeconds = Annotated[float, Field(ge=0.001, le=MAX_REQUEST_SECONDS, allow_inf_nan=False)]
"""A time-out of single requests to the brokers."""
