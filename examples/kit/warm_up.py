"""Every prompt is read once before anything counts, so that no arm finds a colder cache than another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from examples.kit.cluster import RunFailed
from examples.kit.loads import Load, Prompts
from examples.kit.prompts import PROMPTS
from examples.kit.traffic import Traffic

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
    traffic: Traffic, asked: Prompts, patience: Patience, tell: Callable[[str], None], *, context: int = 0
) -> None:
    """Have every prompt of a load read. Where the engine is too slow for that, `tell` says so.

    context: see `Load`.

    Raises:
        RunFailed: a request failed.
    """
    short = replace(traffic, max_tokens=patience.tokens)
    name, wanted, read = " and ".join(asked.kinds), PROMPTS * len(asked.kinds), 0
    tell(f"warming up: every {name} prompt is read once")
    for _ in range(patience.rounds):
        # A round begins with the same prompts as the one before and gets further: those are cached.
        async with aclosing(short.hold(Load(STREAMS, asked, context=context), patience.seconds)) as counts:
            seen = [count async for count in counts]
        if any(count.failed for count in seen):
            errors = {error for count in seen for error in count.errors}
            raise RunFailed(f"requests fail before the run: {'; '.join(sorted(errors))}")
        read = sum(count.requests for count in seen)
        if read >= wanted:
            return
    tell(f"the machine is slow or busy: only {read} of {wanted} {name} prompts were read in one go")
