"""The cost model: step times that the operator pushes with a schedule, and their wire form."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TypeVar

from outrider_protocol.schedule import Row, Schedule

MAX_KNOTS = 64
"""Batch sizes of one cost model."""
MAX_CANDIDATES = 16
MAX_K = 64
MAX_STEP_SECONDS = 60.0
MAX_ERROR = 10.0
MAX_REVISION = 128
"""Characters."""

_Read = TypeVar("_Read")

_KEYS = {
    "revision",
    "candidates",
    "batchSizes",
    "stepSeconds",
    "errors",
    "contextTokens",
    "contextSlopes",
    "limits",
}
_OPTIONAL = {"lookSeconds", "pauseWeight"}


class CostModelError(ValueError):
    """A cost model that cannot be used; the message starts with the name of the field."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Step times of one launch revision. `parse_cost_model` checks what it reads; `check` checks the rest.

    revision: `launch_revision` of the engines that were measured.
    candidates: K that the engine may run, ascending.
    batch_sizes: knots, ascending.
    step_seconds: by knot and candidate, at ``context_tokens`` per request.
    errors: of ``step_seconds``, relative, 1 sigma, without what all entries share.
    context_tokens: tokens in the KV cache per request at which ``step_seconds`` holds.
    context_slopes: by candidate, seconds per token in the KV cache of all requests of a step.
    limits: the largest K by batch size.
    look_seconds: by which a drafted step lasts longer after steps that left the drafter out, on average.
    pause_weight: of short steps; a K is worth tokens / seconds ^ (1 + weight). 0: tokens per second alone.
    """

    revision: str
    candidates: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    step_seconds: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[float, ...], ...]
    context_tokens: float
    context_slopes: tuple[float, ...]
    limits: Schedule
    look_seconds: float = 0.0
    pause_weight: float = 0.0

    def allowed(self, batch: int) -> tuple[int, ...]:
        """Candidates within ``limits`` at a batch size; the smallest one where none is."""
        most = self.limits.k_at(batch)
        return tuple(k for k in self.candidates if k <= most) or self.candidates[:1]

    def seconds(self, k: int, batch: int, context_tokens: float | None = None) -> float:
        """Step time of a candidate at a batch size.

        Linear between knots; as at the first or last knot outside of them.

        context_tokens: in the KV cache, of all requests of the step. None: as many as at measurement.
        """
        index = self.candidates.index(k)
        known = self.interpolated(self.step_seconds, batch)[index]
        if context_tokens is None:
            return known
        return self.at_context(known, index, context_tokens - batch * self.context_tokens)

    def at_context(self, seconds: float, index: int, more_tokens: float) -> float:
        """``seconds`` of a candidate with ``more_tokens`` in the KV cache. At least a quarter of it."""
        return max(seconds + self.context_slopes[index] * more_tokens, 0.25 * seconds)

    def error(self, k: int, batch: int) -> float:
        """Relative error of the step time of a candidate at a batch size, 1 sigma."""
        return self.interpolated(self.errors, batch)[self.candidates.index(k)]

    def interpolated(self, rows: Sequence[Sequence[float]], batch: int) -> tuple[float, ...]:
        """Rows by knot, at a batch size."""
        knots = self.batch_sizes
        above = bisect_left(knots, batch)
        if above == 0:
            return tuple(rows[0])
        if above == len(knots):
            return tuple(rows[-1])
        low, high = knots[above - 1], knots[above]
        part = (batch - low) / (high - low)
        return tuple(a + (b - a) * part for a, b in zip(rows[above - 1], rows[above], strict=True))

    def to_wire(self) -> dict[str, object]:
        """The form that `parse_cost_model` reads."""
        # An engine of an earlier version refuses a key that it does not know.
        pauses = {"pauseWeight": self.pause_weight} if self.pause_weight else {}
        return {
            "revision": self.revision,
            "candidates": list(self.candidates),
            "batchSizes": list(self.batch_sizes),
            "stepSeconds": [list(row) for row in self.step_seconds],
            "errors": [list(row) for row in self.errors],
            "contextTokens": self.context_tokens,
            "contextSlopes": list(self.context_slopes),
            "limits": self.limits.to_wire(),
            "lookSeconds": self.look_seconds,
            **pauses,
        }


def launch_revision(method: str, max_num_seqs: int, num_speculative_tokens: int) -> str:
    """The ``revision`` of a cost model, from the facts of a launch that ``GET /outrider/v1/state`` shows."""
    return f"{method}/{max_num_seqs}/{num_speculative_tokens}"


def parse_cost_model(value: object) -> CostModel:
    """Read the wire form.

    Raises:
        CostModelError: a field is missing, unknown, too large, not finite, out of bounds or out of order.
    """
    if not isinstance(value, Mapping):
        raise CostModelError("costModel must be an object")
    if missing := sorted(_KEYS - value.keys()):
        raise CostModelError(f"costModel needs {missing}")
    if value.keys() - _KEYS - _OPTIONAL:
        raise CostModelError("costModel has a key that is not known")
    revision = value["revision"]
    if not isinstance(revision, str) or not 0 < len(revision) <= MAX_REVISION:
        raise CostModelError(f"revision must be a text of 1 to {MAX_REVISION} characters")
    return check(
        CostModel(
            revision=revision,
            candidates=_each("candidates", value["candidates"], MAX_CANDIDATES, _whole),
            batch_sizes=_each("batchSizes", value["batchSizes"], MAX_KNOTS, _whole),
            step_seconds=_matrix("stepSeconds", value["stepSeconds"]),
            errors=_matrix("errors", value["errors"]),
            context_tokens=_number("contextTokens", value["contextTokens"]),
            context_slopes=_each("contextSlopes", value["contextSlopes"], MAX_CANDIDATES, _number),
            limits=_limits(value["limits"]),
            look_seconds=_number("lookSeconds", value.get("lookSeconds", 0.0)),
            pause_weight=_number("pauseWeight", value.get("pauseWeight", 0.0)),
        )
    )


def check(model: CostModel) -> CostModel:
    """The same cost model, if its numbers fit each other.

    Raises:
        CostModelError: a number is out of bounds, or lists are out of order or of unequal length.
    """
    if not model.candidates or not model.batch_sizes:
        raise CostModelError("candidates and batchSizes must not be empty")
    _rising("candidates", model.candidates, least=0, most=MAX_K)
    _rising("batchSizes", model.batch_sizes, least=1, most=2**31)
    for name, matrix, most in (
        ("stepSeconds", model.step_seconds, MAX_STEP_SECONDS),
        ("errors", model.errors, MAX_ERROR),
    ):
        _length(name, matrix, "batchSizes", model.batch_sizes)
        for index, row in enumerate(matrix):
            _length(f"{name}[{index}]", row, "candidates", model.candidates)
            for place, number in enumerate(row):
                _within(f"{name}[{index}][{place}]", number, above=0.0, most=most)
    _length("contextSlopes", model.context_slopes, "candidates", model.candidates)
    for place, slope in enumerate(model.context_slopes):
        _within(f"contextSlopes[{place}]", slope, least=0.0, most=1.0)
    _within("contextTokens", model.context_tokens, least=0.0, most=1e9)
    _within("lookSeconds", model.look_seconds, least=0.0, most=1.0)
    _within("pauseWeight", model.pause_weight, least=0.0, most=1.0)
    for index, limit in enumerate(model.limits.rows):
        _within(f"limits[{index}].maxBatchSize", limit.max_batch_size or 1, least=1, most=2**31)
        _within(f"limits[{index}].numSpeculativeTokens", limit.num_speculative_tokens, most=MAX_K)
    return model


def _limits(value: object) -> Schedule:
    try:
        return Schedule(_each("limits", value, MAX_KNOTS, _limit))
    except CostModelError:
        raise
    except ValueError as error:
        raise CostModelError(f"limits: {error}") from error


def _limit(name: str, value: object) -> Row:
    if not isinstance(value, Mapping) or value.keys() - {"maxBatchSize", "numSpeculativeTokens"}:
        raise CostModelError(f"{name} must be an object of maxBatchSize and numSpeculativeTokens")
    size = value.get("maxBatchSize")
    return Row(
        None if size is None else _whole(f"{name}.maxBatchSize", size),
        _whole(f"{name}.numSpeculativeTokens", value.get("numSpeculativeTokens")),
    )


def _list(name: str, value: object, most: int) -> Sequence[object]:
    if not isinstance(value, list) or not 0 < len(value) <= most:
        raise CostModelError(f"{name} must be a list of 1 to {most} entries")
    return value


def _each(name: str, value: object, most: int, read: Callable[[str, object], _Read]) -> tuple[_Read, ...]:
    return tuple(read(f"{name}[{index}]", one) for index, one in enumerate(_list(name, value, most)))


def _matrix(name: str, value: object) -> tuple[tuple[float, ...], ...]:
    rows = _list(name, value, MAX_KNOTS)
    return tuple(_each(f"{name}[{index}]", row, MAX_CANDIDATES, _number) for index, row in enumerate(rows))


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CostModelError(f"{name} must be a whole number")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CostModelError(f"{name} must be a number")
    if isinstance(value, int) and abs(value) > 2**53:
        raise CostModelError(f"{name} is too large")
    return float(value)


def _rising(name: str, values: Sequence[int], *, least: int, most: int) -> None:
    for place, value in enumerate(values):
        _within(f"{name}[{place}]", value, least=least, most=most)
    for place, (below, above) in enumerate(pairwise(values), start=1):
        if above <= below:
            raise CostModelError(f"{name}[{place}] is {above}, must be above {below}")


def _length(name: str, values: Sequence[object], of: str, wanted: Sequence[object]) -> None:
    if len(values) != len(wanted):
        raise CostModelError(f"{name} has {len(values)} entries, {of} has {len(wanted)}")


def _within(name: str, value: float, *, most: float, least: float = 0.0, above: float | None = None) -> None:
    if not isfinite(value):
        raise CostModelError(f"{name} must be finite")
    if not least <= value <= most or (above is not None and value <= above):
        bound = f"{least:g}" if above is None else f"above {above:g}"
        raise CostModelError(f"{name} is {value:g}, must lie in {bound} … {most:g}")
