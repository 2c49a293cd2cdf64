"""What one pass of the drafter processes of missed tokens, as runs of tokens side by side.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens side by side that one request missed.

    row: the request's index in the batch. following: the token after the last one; None for the first of
    this step.
    """

    row: int
    begin: int
    text: Sequence[int]
    following: int | None = None

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.begin + len(self.text)


def runs_of(missed: Mapping[str, tuple[int, Sequence[int]]], rows: Mapping[str, int]) -> list[Run]:
    """The runs of an order. missed: see `DrafterOrder`. rows: index in the batch by request."""
    return [Run(rows[name], begin, text) for name, (begin, text) in missed.items()]


def positions(runs: Sequence[Run]) -> NDArray[np.int64]:
    """Positions of the tokens of these runs, in sequence."""
    return np.concatenate([np.arange(run.begin, run.end) for run in runs])


def kept_runs(runs: Sequence[Run], is_kept: NDArray[np.bool_]) -> Iterator[Run]:
    """These runs without the tokens that were not kept. is_kept: of their tokens, one after the other.

    vLLM skips the drafter in steps in which a request nears the end of its context.
    """
    ends = list(accumulate(len(run.text) for run in runs))
    for run, its in zip(runs, np.split(is_kept, ends[:-1]), strict=True):
        if its.all():
            yield run
        else:
            yield from parts(run, its.tolist())


def parts(run: Run, is_kept: Sequence[bool]) -> Iterator[Run]:
    """The run without the tokens that were not kept."""
    for kept, group in groupby(range(len(is_kept)), key=is_kept.__getitem__):
        if kept:
            indices = list(group)
            first, after = indices[0], indices[-1] + 1
            following = run.text[after] if after < len(run.text) else run.following
            yield Run(run.row, run.begin + first, run.text[first:after], following)
