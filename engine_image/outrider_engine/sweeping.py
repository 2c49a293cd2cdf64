"""Runs the sweep after the self-test and before the API server serves, within its budget.

A failure never keeps the server from starting; it costs the map. A core that answers nothing any more
could serve nobody: that ends the engine, and the next start leaves the sweep out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outrider_engine.attempts import Attempts
from outrider_engine.readiness import POLL_SECONDS, fault_of, hang
from outrider_engine.state import State
from outrider_engine.sweep import SweepState, Visit

logger = logging.getLogger("vllm.outrider")

SECONDS_VARIABLE = "OUTRIDER_SWEEP_SECONDS"
SHARE_VARIABLE = "OUTRIDER_SWEEP_SHARE"
LOOK_SECONDS = 0.02
"""How often the front end asks whether a visit has ended."""
ANSWER_SECONDS = 120.0
"""For the core to answer before and after the sweep. It does so between two steps, and the last one may read
the prompts of the largest batch: 26 s on a CPU that does not compute in bfloat16. An engine that is taken
for hung starts all over again."""
_MARK = 0
"""What `Attempts` keeps of a sweep that did not end."""


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` at most, and at most a ``share`` of the start so far."""

    seconds: float = 20.0
    share: float = 0.1

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Budget:
        """As the environment says; what is no number there says nothing."""
        usual = cls()
        return cls(
            _number(variables.get(SECONDS_VARIABLE), usual.seconds),
            _number(variables.get(SHARE_VARIABLE), usual.share),
        )

    def after(self, start_seconds: float) -> float:
        """Seconds for the sweep of an engine that has been starting for so long."""
        return min(self.seconds, self.share * start_seconds)


def _number(text: str | None, otherwise: float) -> float:
    try:
        return float(text) if text else otherwise
    except ValueError:
        return otherwise


class Engines(Protocol):
    """The part of the engine cores that the sweep uses."""

    async def state(self) -> State:
        """The state of the engine."""
        ...

    async def begin_sweep(self, seconds: float) -> list[Visit]:
        """The visits of this process."""
        ...

    async def begin_visit(self, batch: int, context: int) -> None:
        """Begin one visit."""
        ...

    async def visiting(self) -> bool:
        """Whether the visit has slices left."""
        ...

    async def end_visit(self) -> None:
        """End one visit."""
        ...

    async def end_sweep(self, fault: str | None) -> None:
        """End the sweep."""
        ...

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """Greedy tokens."""
        ...


async def sweep(
    engines: Engines,
    attempts: Attempts,
    seconds: float,
    *,
    answer_seconds: float = ANSWER_SECONDS,
) -> None:
    """Run the sweep for so many seconds, or wait for the process that does.

    Raises:
        CoreHangs: the core does not answer any more; it is remembered as a sweep that did not end.
    """
    if attempts.unfinished:
        logger.error("outrider: no sweep: the engine ended in it at an earlier start")
        return
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(answer_seconds):
            visits = await engines.begin_sweep(seconds)
        if not visits:
            async with asyncio.timeout(seconds):
                await _wait_for_the_other(engines)
            return
    except Exception:
        logger.exception("outrider: the sweep could not be run; serving goes on")
        return
    attempts.begin(_MARK)
    fault = await _run(engines, visits, seconds)
    await _close(engines, fault, answer_seconds)
    attempts.end()


async def _run(engines: Engines, visits: list[Visit], seconds: float) -> str | None:
    """Why not every visit was made; that the budget was spent is no fault."""
    try:
        async with asyncio.timeout(seconds):
            for visit in visits:
                await _visit(engines, visit)
    except TimeoutError:
        return None
    except Exception as error:
        logger.exception("outrider: the sweep could not be finished; serving goes on")
        return fault_of(error)
    return None


async def _visit(engines: Engines, visit: Visit) -> None:
    """Keep the batch busy until every K had its steps, or until the requests have ended."""
    await engines.begin_visit(visit["batchSize"], visit["contextTokens"])
    requests = [
        asyncio.create_task(engines.generate(prompt(index, visit["contextTokens"]), visit["tokens"]))
        for index in range(visit["batchSize"])
    ]
    try:
        while await engines.visiting():
            done, _ = await asyncio.wait(requests, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                for request in done:
                    request.result()
                break
    finally:
        for request in requests:
            request.cancel()
        # A request that is cancelled is aborted in the core before its task ends.
        await asyncio.gather(*requests, return_exceptions=True)
    await engines.end_visit()


async def _close(engines: Engines, fault: str | None, answer_seconds: float) -> None:
    try:
        async with asyncio.timeout(answer_seconds):
            await engines.end_sweep(fault)
            outcome = (await engines.state())["sweep"]
    except TimeoutError:
        raise hang("the sweep", fault, answer_seconds) from None
    except Exception:
        logger.exception("outrider: the sweep could not be closed; serving goes on")
        return
    level = logging.INFO if outcome["state"] == SweepState.MEASURED else logging.ERROR
    logger.log(level, "outrider: sweep %s: %s", outcome["state"], outcome["detail"])


async def _wait_for_the_other(engines: Engines) -> None:
    while (await engines.state())["sweep"]["state"] == SweepState.RUNNING:
        await asyncio.sleep(POLL_SECONDS)


def prompt(index: int, tokens: int) -> list[int]:
    """Another one for each request, so that the cache holds each for itself; the same at every visit, so
    that prefix caching reads it once. It repeats itself, so that n-gram drafters find something. Small ids
    are in every vocabulary.
    """
    pattern = [5 + index // 8**place % 8 for place in range(4)]
    return (pattern * (tokens // len(pattern) + 1))[:tokens]


def start_seconds(process: Path = Path("/proc/self/stat")) -> float:
    """Since this process began; 0 where the system does not tell."""
    try:
        # The name in the second field may hold spaces, and ends with the last parenthesis.
        ticks = int(process.read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    began = ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
