"""What is computed from measured numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Figures = dict[str, float | None]
"""By name; None where a run did not reach it."""


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of them does not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def exponent(by_size: Mapping[int, float]) -> float | None:
    """The power of the size with which a figure grows, by least squares of logarithms.

    None for fewer than two sizes with a positive figure.
    """
    points = [(math.log(size), math.log(value)) for size, value in by_size.items() if value > 0]
    if len(points) < 2:
        return None
    x, y = (sum(column) / len(points) for column in zip(*points, strict=True))
    spread = sum((a - x) ** 2 for a, _ in points)
    return float(sum((a - x) * (b - y) for a, b in points) / spread)


def ratios(found: Mapping[str, float | None], name: str, normal: Sequence[str]) -> dict[str, float]:
    """Each figure of a time beside the mean of normal times. name, normal: how their figures begin.

    A figure without a value, and one that normally is 0, has no ratio.
    """
    compared = {}
    for key, value in found.items():
        begins, _, figure = key.partition(": ")
        if begins != name or value is None:
            continue
        beside = [found.get(f"{each}: {figure}") for each in normal]
        known = [each for each in beside if each is not None]
        if len(known) == len(normal) and sum(known) > 0:
            compared[figure] = value * len(known) / sum(known)
    return compared


def table(records: Sequence[Mapping[str, float | None]]) -> str:
    """The figures of all sizes as a table of Markdown, with the exponent of each. Each has ``models``."""
    sizes = [int(record["models"] or 0) for record in records]
    lines = [
        f"| models | {' | '.join(map(str, sizes))} | exponent |",
        "|---|" + "---|" * (len(sizes) + 1),
    ]
    for name in records[0]:
        if name == "models":
            continue
        values = [record.get(name) for record in records]
        power = exponent({size: v for size, v in zip(sizes, values, strict=True) if v is not None})
        lines.append(f"| {name} | {' | '.join(map(shown, values))} | {shown(power)} |")
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """A cell: two digits, or whole numbers from 100 on."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2g}"
