"""Load over time, in ``streams:seconds`` steps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from examples.kit.loads import Load, Prompts


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of a trace."""

    load: Load
    seconds: float


Trace = tuple[Phase, ...]


def parse_trace(text: str, prompts: Prompts, texts: Collection[str] = ()) -> Trace:
    """Read ``1:60,24:90,2:60:prose``; a step without a third part takes `prompts`.

    The third part names prompts or one of `texts`, the classes of text of a stand-in, and after an @ the
    characters to which prompts are lengthened: ``8:60:gsm8k@2000``.

    Raises:
        ValueError: not of that form; the message names the step.
    """
    steps = enumerate(text.split(","), 1)
    return tuple(_phase(step.strip(), number, prompts, texts) for number, step in steps)


def _phase(step: str, number: int, prompts: Prompts, texts: Collection[str]) -> Phase:
    parts = step.split(":")
    wanted = f"step {number}: {step!r} is not streams:seconds or streams:seconds:prompts, such as 24:90"
    if len(parts) not in (2, 3):
        raise ValueError(wanted)
    what, at, context = (parts[2] if len(parts) == 3 else prompts).partition("@")
    text = what if what in texts else ""
    try:
        asked = prompts if text or not what else Prompts(what)
        load = Load(int(parts[0]), asked, text, int(context) if at else 0)
        phase = Phase(load, float(parts[1]))
    except ValueError as error:
        known = f"; texts are {', '.join(sorted(texts))}" if texts else ""
        raise ValueError(wanted + known) from error
    if load.context < 0 or load.streams < 1 or not 5 <= phase.seconds <= 3600:
        raise ValueError(f"step {number}: {step!r} needs at least one stream and 5 to 3600 seconds")
    return phase


def loads_of(trace: Trace) -> tuple[Load, ...]:
    """Every load once, in the order of the trace."""
    return tuple(dict.fromkeys(phase.load for phase in trace))
