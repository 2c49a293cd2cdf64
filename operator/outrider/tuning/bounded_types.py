"""Types of stored numbers, each with its limits.

They apply when a state is read back, because users may edit the ConfigMap. A logarithm of 1,000 or a time in
the year 10^20 would break the arithmetic of every tick.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MAX_COUNT = 2.0**53
"""Limit of a counter. Above it a float cannot represent an increase by 1, and no engine reaches it."""

MAX_BATCH = 2**20
"""Limit of a batch size; no engine runs so many requests."""

Count = Annotated[float, Field(ge=0, le=MAX_COUNT)]
Log = Annotated[float, Field(ge=-60, le=60)]  # of anything that is counted or timed
Gain = Annotated[float, Field(ge=-1e6, le=1e6)]  # relative
Share = Annotated[float, Field(ge=0, le=1 + 1e-6)]  # 0..1, within the error of sums
Variance = Annotated[float, Field(ge=0, le=100)]  # of a logarithm
Seconds = Annotated[float, Field(ge=0, le=1e9)]
UnixSeconds = Annotated[float, Field(ge=0, le=1e11)]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Words = Annotated[str, Field(max_length=1000)]
