"""Tests whether sampled answers with and without speculation have one distribution, position by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.verify.chi_square import power, tail

LEVEL = 0.01
"""Level of all tests together: the probability that a lossless engine fails."""
SHIFT = 0.1
"""Ratio of changed answers for which the power of a test is given."""
_FEWEST = 10
"""Samples of a token that has a bin of its own; rarer tokens share one, as the test needs."""


@dataclass(frozen=True, slots=True)
class PositionTest:
    """One position of the answers. p: how often chance alone differs so much or more."""

    position: int  # counted from 1
    samples: int  # on each side
    bins: int  # distinct tokens; all rare ones count as one
    statistic: float
    p: float
    power: float  # probability that a shift of `SHIFT` of the answers would have been seen


@dataclass(frozen=True, slots=True)
class Same:
    """A position at which all samples had one token: there is nothing to test."""

    position: int
    samples: int


def position_tests(
    plain: Sequence[Sequence[str]], speculated: Sequence[Sequence[str]], *, positions: int
) -> tuple[PositionTest | Same, ...]:
    """One test per position. plain, speculated: tokens of each answer to one prompt, as many on each side."""
    return tuple(
        _test(position, _at(plain, position), _at(speculated, position), level=LEVEL / positions)
        for position in range(1, positions + 1)
    )


def differs(found: Sequence[PositionTest | Same]) -> bool:
    """True where one position differs beyond chance, at `LEVEL` over all positions."""
    return any(isinstance(each, PositionTest) and each.p < LEVEL / len(found) for each in found)


def _at(answers: Sequence[Sequence[str]], position: int) -> Counter[str]:
    """Counts of the tokens at a position; an answer that ended before counts as an end."""
    return Counter(answer[position - 1] if len(answer) >= position else "" for answer in answers)


def _test(
    position: int, plain: Counter[str], speculated: Counter[str], *, level: float
) -> PositionTest | Same:
    left, right = _binned(plain, speculated)
    samples = sum(left)
    if len(left) < 2:
        return Same(position, samples)
    other = sum(right)
    statistic = sum(
        (above * (other / samples) ** 0.5 - below * (samples / other) ** 0.5) ** 2 / (above + below)
        for above, below in zip(left, right, strict=True)
    )
    freedom = len(left) - 1
    return PositionTest(
        position,
        min(samples, other),
        len(left),
        statistic,
        tail(statistic, freedom),
        power(_noncentrality(left, right), freedom, level=level),
    )


def _binned(plain: Counter[str], speculated: Counter[str]) -> tuple[list[int], list[int]]:
    both = plain + speculated
    common = [token for token, count in both.most_common() if count >= _FEWEST]
    left, right = [plain[token] for token in common], [speculated[token] for token in common]
    rest = plain.total() - sum(left), speculated.total() - sum(right)
    if sum(rest) >= _FEWEST:
        return [*left, rest[0]], [*right, rest[1]]
    if sum(rest) and left:
        return [*left[:-1], left[-1] + rest[0]], [*right[:-1], right[-1] + rest[1]]
    return left, right


def _noncentrality(left: Sequence[int], right: Sequence[int]) -> float:
    """Where `SHIFT` of one side's answers went from the likeliest token to the others, by their shares."""
    samples = (sum(left) + sum(right)) / 2
    shares = [(above + below) / (2 * samples) for above, below in zip(left, right, strict=True)]
    first = max(shares)
    shift = min(SHIFT, first)
    moved = [share + shift * share / (1 - first) for share in shares]
    moved[shares.index(first)] = first - shift
    return samples * sum(
        (after - before) ** 2 / (after + before) for before, after in zip(shares, moved, strict=True)
    )
