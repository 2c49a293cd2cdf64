"""The time of a check: which parts fit into the seconds left, and how long each may measure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

START_SECONDS = 220.0
"""Assumed for engines that start together on a GPU, until one has started: imports, compilation, kernels,
graphs, startup profile. Measured on a fresh machine with one H200: 228 s for the first start, 181 s for a
later one, 140 s without compilation."""


@dataclass(frozen=True, slots=True)
class Need:
    """Seconds that one part needs.

    starts: times that it waits for engines to start. least, wanted: seconds of measurement, the fewest and
    the most useful.
    """

    name: str
    starts: int
    least: float
    wanted: float


def allotments(needs: Sequence[Need], seconds: float, *, start_seconds: float) -> dict[str, float]:
    """Seconds of measurement of every part that fits, in the order of the parts.

    An earlier part is more valuable: it gets its fewest seconds before a later one gets any. What remains is
    divided among those that fit, in proportion to what they could use.
    """
    fitting: list[Need] = []
    left = seconds
    for need in needs:
        cost = need.starts * start_seconds + need.least
        if cost <= left:
            fitting.append(need)
            left -= cost
    useful = sum(need.wanted - need.least for need in fitting)
    share = min(1.0, left / useful) if useful > 0 else 0.0
    return {need.name: need.least + share * (need.wanted - need.least) for need in fitting}
