"""Load over time: ``streams:seconds`` steps, and what the streams ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from examples.demo.prompts import Kind


class Prompts(StrEnum):
    """What the streams ask for. The drafter of the tiny models knows code only."""

    CODE = "code"
    PROSE = "prose"
    MIXED = "mixed"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Whose prompts are sent; of two kinds in turn."""
        return (Kind.CODE, Kind.PROSE) if self is Prompts.MIXED else (Kind(self.value),)


@dataclass(frozen=True, slots=True)
class Load:
    """A steady load, the same whenever it comes."""

    streams: int
    prompts: Prompts

    @property
    def name(self) -> str:
        """Such as ``code x8``."""
        return f"{self.prompts} x{self.streams}"


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of a trace."""

    load: Load
    seconds: float


Trace = tuple[Phase, ...]


def parse_trace(text: str, prompts: Prompts) -> Trace:
    """Read ``1:60,24:90,2:60:prose``; a step without a third part takes `prompts`.

    Raises:
        ValueError: not of that form; the message names the step.
    """
    return tuple(_phase(step.strip(), number, prompts) for number, step in enumerate(text.split(","), 1))


def _phase(step: str, number: int, prompts: Prompts) -> Phase:
    parts = step.split(":")
    wanted = f"step {number}: {step!r} is not streams:seconds or streams:seconds:prompts, such as 24:90"
    if len(parts) not in (2, 3):
        raise ValueError(wanted)
    try:
        load = Load(int(parts[0]), Prompts(parts[2]) if len(parts) == 3 else prompts)
        phase = Phase(load, float(parts[1]))
    except ValueError as error:
        raise ValueError(wanted) from error
    if load.streams < 1 or not 5 <= phase.seconds <= 3600:
        raise ValueError(f"step {number}: {step!r} needs at least one stream and 5 to 3600 seconds")
    return phase


def loads_of(trace: Trace) -> tuple[Load, ...]:
    """Every load once, in the order of the trace."""
    return tuple(dict.fromkeys(phase.load for phase in trace))
