"""The GPU of a simulated engine: its step times, texts and memory, read from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from outrider_twin.acceptance import Curve
from outrider_twin.step_time import StepTime, Timing
from outrider_twin.throughput import Throughput, survival_from

DEFAULT_TEXT = "default"
"""The only class of text of an engine without classes."""

UNNAMED = "a description without a name"

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Border(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepTimeEntry(_Border):
    """The coefficients of a `StepTime`."""

    fixed: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    per_kv_token: Seconds = 0.0
    per_token: Seconds = 0.0
    draft_fixed: Seconds = 0.0
    draft_per_kv_token: Seconds = 0.0
    draft_per_token: Seconds = 0.0


class ThroughputEntry(BaseModel):
    """A table in the form of Outrider's simulator, with additional fields.

    Other keys of that form are accepted and ignored.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    num_speculative_tokens: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    tokens_per_second: tuple[tuple[Rate, ...], ...]
    no_speculation_tokens_per_second: tuple[Rate, ...] | None = None
    accepted_per_step: tuple[tuple[Annotated[float, Field(ge=0)] | None, ...], ...] | None = None
    prompt_token_seconds: Seconds

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        rows, columns = len(self.batch_sizes), len(self.num_speculative_tokens)
        for name in ("batch_sizes", "num_speculative_tokens"):
            values = list(getattr(self, name))
            if values != sorted(set(values)):
                raise ValueError(f"{name} must increase")
        for name in ("tokens_per_second", "accepted_per_step"):
            table = getattr(self, name)
            if table is not None and [len(row) for row in table] != [columns] * rows:
                raise ValueError(f"{name} must have {rows} rows of {columns} numbers")
        plain = self.no_speculation_tokens_per_second
        if plain is not None and len(plain) != rows:
            raise ValueError(f"no_speculation_tokens_per_second must have {rows} numbers")
        return self

    def curve(self) -> Curve:
        """The acceptance of its drafts: of the most complete row, or the usual curve."""
        rows = [
            survival
            for row in self.accepted_per_step or ()
            if (survival := survival_from(self.num_speculative_tokens, row)) is not None
        ]
        return Curve.from_survival(max(rows, key=len)) if rows else Curve.usual()

    def timing(self, *, drafter: bool) -> Throughput:
        """Step times with a drafter, or of a launch without one where that was measured."""
        plain = self.no_speculation_tokens_per_second
        if not drafter and plain is not None:
            return Throughput(
                self.batch_sizes, (0,), tuple((rate,) for rate in plain), (1.0,), self.prompt_token_seconds
            )
        curve = self.curve()
        gains = tuple(curve.gain(k) for k in self.num_speculative_tokens)
        return Throughput(
            self.batch_sizes,
            self.num_speculative_tokens,
            self.tokens_per_second,
            gains,
            self.prompt_token_seconds,
        )


class Description(_Border):
    """One GPU with one model. Exactly one of ``step_time`` and ``throughput``.

    name: of the engine. source: of the figures.
    survival: by class of text, the ratio of drafts with an accepted position j; not increasing.
    kv_tokens: capacity of the cache in tokens.
    idle_tax: relative overhead of the idle drafter on a step at K=0; for a step time.
    """

    name: str = ""
    source: str = ""
    step_time: StepTimeEntry | None = None
    throughput: ThroughputEntry | None = None
    survival: Mapping[str, Annotated[tuple[Share, ...], Field(min_length=1)]] = Field(default_factory=dict)
    kv_tokens: Annotated[int, Field(ge=1)]
    idle_tax: Seconds = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.step_time is None) == (self.throughput is None):
            raise ValueError("an engine has either step_time or throughput")
        if self.idle_tax and self.throughput is not None:
            raise ValueError("a throughput has the overhead in no_speculation_tokens_per_second")
        for name, shares in self.survival.items():
            if list(shares) != sorted(shares, reverse=True):
                raise ValueError(f"survival.{name} must not increase")
        return self

    @property
    def title(self) -> str:
        """The name of the engine; never empty, since an empty one would count as a real engine."""
        return self.name or self.source or UNNAMED

    def timing(self, *, drafter: bool) -> Timing:
        """Step times with or without a drafter."""
        if self.step_time is not None:
            return StepTime(**self.step_time.model_dump(), idle_tax=self.idle_tax if drafter else 0.0)
        assert self.throughput is not None
        return self.throughput.timing(drafter=drafter)

    def curves(self) -> dict[str, Curve]:
        """Curves by class of text; one under `DEFAULT_TEXT` without classes."""
        if self.survival:
            return {name: Curve.from_survival(shares) for name, shares in self.survival.items()}
        return {DEFAULT_TEXT: self.throughput.curve() if self.throughput else Curve.usual()}


def shipped() -> list[str]:
    """The names of the engines that come with the package."""
    folder = resources.files("outrider_twin") / "engines"
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def load_shipped(name: str) -> Description:
    """The description of a shipped engine.

    Raises:
        ValueError: no engine has this name; the message lists them.
    """
    if name not in shipped():
        raise ValueError(f"no engine {name!r}, there are: {', '.join(shipped())}")
    file = resources.files("outrider_twin") / "engines" / f"{name}.json"
    return Description.model_validate({**json.loads(file.read_text(encoding="utf-8")), "name": name})
