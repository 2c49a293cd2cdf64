"""Traces of the law on measured throughputs, without noise, for people to read.

``python -m tests.unit.tuning.golden --write`` writes them again; read the diff.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from outrider.tuning.decision import Decision, Kind
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.state import TunerState
from tests.unit.tuning import guarded
from tests.unit.tuning.factories import CODE, Engine, a_map, a_start, run

FOLDER = Path(__file__).parent / "traces"
TICK = 5.0


@dataclass(frozen=True)
class Part:
    """Steady load for some ticks."""

    name: str
    ticks: int
    engines: tuple[Engine, ...]


PROSE = {
    b: tuple(g * x for g, x in zip(row, (1, 0.8, 0.62, 0.55, 0.4), strict=True)) for b, row in CODE.items()
}

TRACES: Mapping[str, tuple[Part, ...]] = {
    "load-steps": (
        Part("1 stream", 24, (Engine(1.0),)),
        Part("16 streams", 24, (Engine(16.0),)),
        Part("32 streams", 24, (Engine(32.0),)),
        Part("1 stream again", 12, (Engine(1.0),)),
    ),
    "code-then-prose": (
        Part("1 stream of code", 24, (Engine(1.0, acceptance=0.9),)),
        Part("1 stream of prose", 24, (Engine(1.0, table=PROSE, acceptance=0.35),)),
        Part("1 stream of code again", 24, (Engine(1.0, acceptance=0.9),)),
    ),
    "a-slow-pod": (
        Part(
            "32 streams on a, 32 on b at half the pace",
            36,
            (Engine(32.0), Engine(32.0, pace=2.0, pod="default/b")),
        ),
    ),
}


MAPPED = "load-steps-with-a-map"
"""The same loads as in `load-steps`, by a law that begins with a map of the engine."""
WRONGLY_MAPPED = "load-steps-with-a-wrong-map"
"""... and by one whose map is of an engine on which long drafts are nearly free."""
MAPS: Mapping[str, StepTimeProfile] = {
    MAPPED: a_map(),
    WRONGLY_MAPPED: a_map(off=lambda _batch, k: 1.0 / (1.0 + k)),
}

GUARDRAILS = "guardrails"
"""The trace of the guardrails: each holds, and without its cause the tuner continues."""


def trace(name: str) -> str:
    """One line per decision that is not a hold."""
    if name == GUARDRAILS:
        lines = _guardrails()
    elif name in MAPS:
        lines = _lines(TRACES["load-steps"], MAPS[name])
    else:
        lines = _lines(TRACES[name])
    return "\n".join(lines) + "\n"


def _guardrails() -> Iterator[str]:
    for guardrail in (*guarded.OBSERVATIONS, *guarded.STEP, *guarded.PROBING):
        scene = guardrail()
        yield f"--- {guardrail.__name__}: {guardrail.__doc__}"
        yield f" held  {_words(scene.held.decide())}"
        yield f" free  {_words(scene.free.decide())}"


def _lines(parts: tuple[Part, ...], step_times: StepTimeProfile | None = None) -> Iterator[str]:
    state: TunerState = a_start(3)
    at = 0.0
    for part in parts:
        yield f"--- {part.name}"
        decisions = run(state, *part.engines, ticks=part.ticks, at=at, seconds=TICK, step_times=step_times)
        for index, decision in enumerate(decisions, 1):
            if decision.kind is not Kind.HOLD or index == part.ticks:
                yield _line(at + index * TICK, decision)
            state = decision.state
        at += part.ticks * TICK


def _line(at: float, decision: Decision) -> str:
    return f"{at:4.0f} s  {_words(decision)}"


def _words(decision: Decision) -> str:
    what = f"{decision.kind:8s} {decision.reason:16s}"
    return f"{what} table {decision.schedule}  {decision.sentence}"


def main() -> None:
    """Write every trace."""
    if sys.argv[1:] != ["--write"]:
        sys.exit("python -m tests.unit.tuning.golden --write")
    FOLDER.mkdir(exist_ok=True)
    for name in (*TRACES, *MAPS, GUARDRAILS):
        (FOLDER / f"{name}.txt").write_text(trace(name), encoding="utf-8")


if __name__ == "__main__":
    main()
