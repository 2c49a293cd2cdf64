"""Numbers of what is stored, each with the most that it can be.

They hold where a state is read back: anybody who may edit a ConfigMap can have written it, and a
logarithm of 1,000 or a moment in the year 10^20 would break the arithmetic of every tick.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LARGEST_COUNT = 2.0**53
"""Beyond it a float does not count by one any more, and no engine gets there."""

LARGEST_BATCH = 2**20
"""No engine holds so many requests at a time."""

Count = Annotated[float, Field(ge=0, le=LARGEST_COUNT)]
Log = Annotated[float, Field(ge=-60, le=60)]  # of anything that is counted or timed
Gain = Annotated[float, Field(ge=-1e6, le=1e6)]  # relative
Share = Annotated[float, Field(ge=0, le=1 + 1e-6)]  # 0..1, as far as sums of shares are exact
Variance = Annotated[float, Field(ge=0, le=100)]  # of a logarithm
Seconds = Annotated[float, Field(ge=0, le=1e9)]
UnixSeconds = Annotated[float, Field(ge=0, le=1e11)]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Words = Annotated[str, Field(max_length=1000)]
