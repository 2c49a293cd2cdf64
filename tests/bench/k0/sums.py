"""What the timers of an engine say, and what they were installed as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.k0 import timers
from tests.bench.k0.arms import UNRULED
from tests.bench.k0.timers import Part
from tests.contract.engine import Launch, install_plugin
from tests.contract.helper_plugins import install_modules

STEP, TOKEN = "from step to step", "from token to token"
"""What the parts of steps that only decode add up to, and vLLM's own mean time between two tokens."""

BESIDES = "all but the forward pass"
"""That is the same work in every engine, and differs by chance more than all else by design."""

ROWS = (*(part for part in Part if part is not Part.OTHER_STEPS), BESIDES, STEP, Part.OTHER_STEPS, TOKEN)

_ENTRIES = {
    "k0_timers": f"k0_timers:{timers.register.__name__}",
    "k0_timers_with_outrider": f"k0_timers:{timers.register_with_outrider.__name__}",
}


@dataclass(frozen=True, slots=True)
class Sums:
    """All that an engine has timed so far, or the difference of two."""

    nanoseconds: Mapping[str, float]
    calls: Mapping[str, int]
    nanoseconds_per_call: float

    def __sub__(self, other: Sums) -> Sums:
        spent = {part: value - other.nanoseconds.get(part, 0) for part, value in self.nanoseconds.items()}
        calls = {part: value - other.calls.get(part, 0) for part, value in self.calls.items()}
        return Sums(spent, calls, self.nanoseconds_per_call)

    @property
    def steps(self) -> int:
        """That only decode. Each has one forward pass."""
        return self.calls.get(Part.FORWARD, 0)

    def milliseconds(self) -> dict[str, float]:
        """Per step that only decodes, by part, and of the whole step with and without its forward pass."""
        parts = {part.value: self.nanoseconds.get(part, 0) / self.steps / 1e6 for part in Part}
        step = sum(parts.values()) - parts[Part.OTHER_STEPS]
        return {**parts, BESIDES: step - parts[Part.FORWARD], STEP: step}

    def timers_milliseconds(self) -> float:
        """Per step, what the timers themselves take. It is in the parts."""
        return sum(self.calls.values()) * self.nanoseconds_per_call / self.steps / 1e6


NOTHING = Sums({}, {}, 0.0)


def read(file: Path) -> Sums:
    """What an engine wrote last; nothing where it has not."""
    return Sums(**json.loads(file.read_text())) if file.exists() else NOTHING


def install(folder: Path) -> Path:
    """Outrider's plugin and the timers, with their entry points, in one folder."""
    install_plugin(folder)
    install_modules(folder, "k0-timers", _ENTRIES, {"k0_timers": timers})
    return folder


def with_timers(arm: str, launch: Launch, file: Path) -> Launch:
    """Launched with timers, whose sums go to a file. They attach Outrider's own plugin themselves."""
    plugins = "k0_timers" if arm in UNRULED else "outrider_api,k0_timers_with_outrider"
    own = {"VLLM_PLUGINS": plugins, timers.FILE_VARIABLE: str(file)}
    return replace(launch, variables={**launch.variables, **own})
