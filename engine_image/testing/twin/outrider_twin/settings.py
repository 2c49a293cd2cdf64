"""The settings in ``OUTRIDER_TWIN``: the name of a shipped engine, or an object in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from outrider_twin.description import Description, load_shipped
from outrider_twin.faults import Faults
from outrider_twin.noise import Noise

VARIABLE = "OUTRIDER_TWIN"

Deviation = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(gt=0, le=1000)]


class _Border(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoiseEntry(_Border):
    """The parts of `Noise`."""

    white: Deviation = 0.0
    drift: Deviation = 0.0
    drift_seconds: Annotated[float, Field(gt=0)] = 60.0
    pods: Deviation = 0.0


class Settings(_Border):
    """One simulated engine.

    engine: the name of a shipped engine, or a `Description`.
    texts: weights of the classes of text, for requests that name none; empty: equal weights.
    time_factor: factor on all step times; 0.2 is an engine five times as fast.
    slack_seconds: maximum delay of the machine that later steps compensate; see `outrider_twin.pace`.
    idle_tax, kv_tokens: replace those of the description.
    """

    engine: Description
    texts: Mapping[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    seed: int = 0
    noise: NoiseEntry = NoiseEntry()
    faults: Faults = Faults()
    time_factor: Factor = 1.0
    slack_seconds: Annotated[float, Field(ge=0, le=1)] = 0.005
    idle_tax: Annotated[float, Field(ge=0)] | None = None
    kv_tokens: Annotated[int, Field(ge=1)] | None = None

    @field_validator("engine", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return load_shipped(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        known = self.engine.curves()
        if unknown := sorted(set(self.texts) - set(known)):
            raise ValueError(f"texts: no class {', '.join(unknown)}, there are: {', '.join(known)}")
        if self.texts and not any(self.texts.values()):
            raise ValueError("texts: one weight must be above 0")
        return self

    def description(self) -> Description:
        """The engine with the replaced values."""
        instead = {"idle_tax": self.idle_tax, "kv_tokens": self.kv_tokens}
        changes = {name: value for name, value in instead.items() if value is not None}
        return Description.model_validate({**self.engine.model_dump(), **changes})

    def shares(self) -> tuple[tuple[str, float], ...]:
        """The weight of each class of text, in one order for all engines."""
        named = self.texts or dict.fromkeys(self.engine.curves(), 1.0)
        return tuple(sorted(named.items()))

    def noise_of(self, pod: str) -> Noise:
        """The noise of the engine in a pod."""
        return Noise(**self.noise.model_dump(), seed=self.seed, pod=pod)


class Behaviour(_Border):
    """Settings that can change while an engine runs; missing ones stay."""

    time_factor: Factor | None = None
    faults: Faults | None = None

    @model_validator(mode="after")
    def _check_faults(self) -> Self:
        if self.faults and (self.faults.start_seconds or self.faults.no_start):
            raise ValueError("faults: a running engine has no start; set them before it starts")
        return self


class SettingsError(ValueError):
    """Settings that cannot be used; the message names the field."""


def parse_settings(text: str) -> Settings:
    """Read the value of the variable.

    Raises:
        SettingsError: the value is neither a known name nor a valid object.
    """
    stripped = text.strip()
    try:
        value: object = json.loads(stripped) if stripped.startswith("{") else {"engine": stripped}
        return Settings.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{VARIABLE}: {place + ': ' if place else ''}{first['msg']}") from error
    except ValueError as error:
        raise SettingsError(f"{VARIABLE}: {error}") from error
