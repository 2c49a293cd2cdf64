"""The time of a check: which parts fit into the seconds left, and how long each may measure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

START_SECONDS = 90.0
"""Assumed for an engine on a GPU until one has started: weights, compilation, graphs, startup profile."""


@dataclass(frozen=True, slots=True)
class Need:
    """Seconds that one part needs.

    starts: engines that it must start. least, wanted: seconds of measurement, the fewest and the most useful.
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
