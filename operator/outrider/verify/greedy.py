"""Compares greedy answers with and without speculation: equal, a tie of two tokens, or a defect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

TIE = 0.25
"""Nats between two tokens below which rounding decides. Logits of 16 to 32 in bfloat16 are 0.125 apart, and
both may be rounded."""


@dataclass(frozen=True, slots=True)
class Step:
    """One token of a greedy answer. top: log-probabilities of the likeliest tokens there, with its own."""

    token: str
    top: Mapping[str, float]


Answer = Sequence[Step]


class Comparison(StrEnum):
    """The result of a comparison of two answers to one prompt."""

    EQUAL = "Equal"
    """Both answers have the same tokens."""
    TIE = "Tie"
    """They part where two tokens were equally likely; the rest is not comparable."""
    DEFECT = "Defect"
    """They part where one token was clearly likelier, or one ended early."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The place at which two answers part.

    gap: nats between the log-probabilities of both tokens, the larger of both answers' values. None: the
    other token is not among the likeliest.
    """

    comparison: Comparison
    position: int | None = None  # of the first token that differs, counted from 0; None: none does
    plain: str | None = None
    speculated: str | None = None
    gap: float | None = None


def compare(plain: Answer, speculated: Answer, *, tie: float = TIE) -> Difference:
    """Compare two greedy answers to one prompt. plain: without drafts. tie: in nats."""
    for position, (left, right) in enumerate(zip(plain, speculated, strict=False)):
        if left.token != right.token:
            gap = _gap(left, right)
            kind = Comparison.TIE if gap is not None and gap <= tie else Comparison.DEFECT
            return Difference(kind, position, left.token, right.token, gap)
    if len(plain) != len(speculated):
        return Difference(Comparison.DEFECT, min(len(plain), len(speculated)))
    return Difference(Comparison.EQUAL)


def has_defect(found: Sequence[Difference]) -> bool:
    """Whether some answers part beyond ties."""
    return any(each.comparison is Comparison.DEFECT for each in found)


def _gap(plain: Step, speculated: Step) -> float | None:
    """The larger value of both answers: a tie must be one in both."""
    views = (
        _apart(plain.top, plain.token, speculated.token),
        _apart(speculated.top, speculated.token, plain.token),
    )
    known = [view for view in views if view is not None]
    return max(known) if len(known) == len(views) else None


def _apart(top: Mapping[str, float], chosen: str, other: str) -> float | None:
    if chosen not in top or other not in top:
        return None
    return abs(top[chosen] - top[other])
