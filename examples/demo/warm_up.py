"""Every prompt is read once before anything counts, so that no arm finds a colder cache than another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from examples.demo.cluster import DemoFailed
from examples.demo.prompts import PROMPTS, Kind
from examples.demo.traffic import Traffic

STREAMS = 8


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an engine may take to read all prompts in one round.

    seconds: of one round. tokens: of each answer.
    """

    rounds: int
    seconds: float
    tokens: int


async def warm_up(
    traffic: Traffic, kinds: Sequence[Kind], patience: Patience, tell: Callable[[str], None]
) -> None:
    """Have every prompt of these kinds read. Where the engine is too slow for that, `tell` says so.

    Raises:
        DemoFailed: a request failed.
    """
    short = replace(traffic, max_tokens=patience.tokens)
    name, wanted, read = " and ".join(kinds), PROMPTS * len(kinds), 0
    tell(f"warming up: every {name} prompt is read once")
    for _ in range(patience.rounds):
        # A round begins with the same prompts as the one before and gets further: those are cached.
        async with aclosing(short.hold(STREAMS, kinds, patience.seconds)) as counts:
            seen = [second async for second in counts]
        if any(second.failed for second in seen):
            errors = {error for second in seen for error in second.errors}
            raise DemoFailed(f"requests fail before the run: {'; '.join(sorted(errors))}")
        read = sum(second.requests for second in seen)
        if read >= wanted:
            return
    tell(f"the machine is slow or busy: only {read} of {wanted} {name} prompts were read in one go")
