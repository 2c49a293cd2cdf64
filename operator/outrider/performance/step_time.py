"""Step time of an engine from a formula, and the reader of `formulas[]`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from outrider.performance.tables_file import TableError


class Timing(Protocol):
    """How long an engine with a drafter takes for a step."""

    @property
    def per_token(self) -> float:
        """Seconds by which each prompt token prolongs a step."""
        ...

    @property
    def idle_tax(self) -> float:
        """Relative; by so much longer takes a step with K=0 than on an engine without drafter."""
        ...

    def seconds(self, batch: float, k: int, kv_tokens: float, prompt_tokens: float = 0.0) -> float:
        """One step of `batch` requests in decode; see `StepTime` for the rest."""
        ...

    def growth(self, k: int) -> float:
        """Seconds by which a step gets longer per token added to the cache."""
        ...

    def without_drafter(self) -> Timing:
        """The same engine, launched without one; for K=0 alone."""
        ...


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one engine step, linear in what is in it.

    T = fixed + per_kv_token kv + per_token (B (1 + K) + P)
        + K (draft_fixed + draft_per_kv_token kv + draft_per_token B)

    B requests in decode, K drafted tokens each, P prompt tokens, kv tokens in the cache of all
    requests in the step. With a drafter, a step with K=0 takes `idle_tax` longer. A block drafter makes the
    same number of calls for every K above 0.
    """

    fixed: float  # seconds: weights and launch
    per_kv_token: float
    per_token: float
    draft_fixed: float  # seconds per drafted position
    draft_per_kv_token: float
    draft_per_token: float
    idle_tax: float = 0.0  # relative
    block_calls: int = 0  # drafter calls of a block drafter; 0: one call for each drafted position

    def seconds(self, batch: float, k: int, kv_tokens: float, prompt_tokens: float = 0.0) -> float:
        """One step of an engine with a drafter."""
        target = self.target_seconds(batch * (1 + k) + prompt_tokens, kv_tokens)
        if k == 0:
            return target * (1.0 + self.idle_tax)
        return target + self.draft_seconds(batch, k, kv_tokens)

    def target_seconds(self, tokens: float, kv_tokens: float) -> float:
        """The target's part. tokens: of the step, drafts included."""
        return self.fixed + self.per_kv_token * kv_tokens + self.per_token * tokens

    def draft_seconds(self, batch: float, k: int, kv_tokens: float) -> float:
        """The drafter's part: K drafted tokens for each request."""
        calls = (self.block_calls or k) if k > 0 else 0
        return calls * (self.draft_fixed + self.draft_per_kv_token * kv_tokens + self.draft_per_token * batch)

    def growth(self, k: int) -> float:
        """Seconds by which a step gets longer per token added to the cache."""
        if k == 0:
            return self.per_kv_token * (1.0 + self.idle_tax)
        return self.per_kv_token + (self.block_calls or k) * self.draft_per_kv_token

    def without_drafter(self) -> StepTime:
        """See `Timing`."""
        return replace(self, idle_tax=0.0)


def read_formula(entry: Mapping[str, object]) -> tuple[StepTime, dict[str, tuple[float, ...]]]:
    """Step time and acceptance of one entry of `formulas[]`.

    Values are the acceptance of position j, given that all before it were accepted, by data set. They are
    ratios of neighbouring entries of `survival`, whose first one is the bonus token.

    Raises:
        TableError: a field is missing or unreadable, or an expression is not linear.
    """
    name = entry.get("name", "?")
    target = _linear(name, "step_seconds", entry, ("kv_tokens", "batched_tokens", "draft"))
    draft = _linear(name, "draft_seconds_per_call", entry, ("kv_tokens", "spec_tokens"))
    overhead = _number(name, "overhead_seconds", entry)
    survival = entry.get("survival")
    if not isinstance(survival, Mapping):
        raise TableError(f"formula {name}: survival is missing")
    step = StepTime(
        fixed=target["1"] + overhead,
        per_kv_token=target["kv_tokens"],
        per_token=target["batched_tokens"],
        draft_fixed=target["draft"] * draft["1"],
        draft_per_kv_token=target["draft"] * draft["kv_tokens"],
        draft_per_token=target["draft"] * draft["spec_tokens"],
    )
    return step, {str(key): _conditional(f"{name}.survival.{key}", row) for key, row in survival.items()}


def _conditional(place: str, row: object) -> tuple[float, ...]:
    if not isinstance(row, Sequence) or len(row) < 2 or not all(isinstance(x, int | float) for x in row):
        raise TableError(f"formula {place} must be a list of numbers")
    values = [float(x) for x in row]
    for j, (before, after) in enumerate(pairwise(values), start=1):
        if not 0 < after <= before <= 1:
            raise TableError(f"formula {place}[{j}] is {after:g}, must be above 0 and at most {before:g}")
    return tuple(after / before for before, after in pairwise(values))


def _number(name: object, key: str, entry: Mapping[str, object]) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TableError(f"formula {name}: {key} must be a number")
    return float(value)


def _linear(
    name: object, key: str, entry: Mapping[str, object], variables: Sequence[str]
) -> dict[str, float]:
    """Coefficient of every variable, and of 1."""
    text = entry.get(key)
    if not isinstance(text, str):
        raise TableError(f"formula {name}: {key} must be an expression")
    try:
        tree = ast.parse(text, mode="eval").body
        zero = dict.fromkeys(variables, 0.0)
        constant = _evaluate(tree, zero)
        slopes = {v: _evaluate(tree, {**zero, v: 1.0}) - constant for v in variables}
        twice = _evaluate(tree, dict.fromkeys(variables, 2.0))
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise TableError(f"formula {name}: {key}: {text!r} cannot be read") from error
    if abs(twice - constant - 2 * sum(slopes.values())) > 1e-9:
        raise TableError(f"formula {name}: {key}: {text!r} is not linear")
    return {"1": constant, **slopes}


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _evaluate(node: ast.expr, values: Mapping[str, float]) -> float:
    """Numbers, names and the four operations; nothing else."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values)
        case _:
            raise TypeError(ast.dump(node))
