"""Runs the self-test before the API server serves: vLLM awaits the plugin's state first.

A failure never keeps the server from starting. It costs live tuning, or the K that failed. A core that
answers nothing any more could serve nobody: that ends the engine, and the next start leaves its K out.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from outrider_engine.attempts import Attempts
from outrider_engine.selftest import SELF_TEST_SECONDS, SelfTestState, Trial
from outrider_engine.state import State

logger = logging.getLogger("vllm.outrider")

TRIAL_SECONDS = 60.0
ANSWER_SECONDS = 20.0
"""After a trial without an answer the core itself has so long to say anything at all."""
PROMPT = [5, 6, 7, 8] * 6
"""Small ids are in every vocabulary, and a repeated pattern gives n-gram drafters something to find."""

POLL_SECONDS = 0.2


class CoreHangs(Exception):
    """The engine core does not answer any more."""


class Engines(Protocol):
    """The part of the engine cores that the self-test uses."""

    async def state(self) -> State:
        """The state of the engine."""
        ...

    async def begin_self_test(self) -> list[Trial]:
        """The trials of this process."""
        ...

    async def begin_trial(self, k: int) -> None:
        """Begin one trial."""
        ...

    async def end_trial(self, k: int, *, tokens: list[int], fault: str | None) -> None:
        """End one trial."""
        ...

    async def end_self_test(self, fault: str | None) -> None:
        """End the self-test."""
        ...

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """Greedy tokens."""
        ...


async def self_test(
    engines: Engines,
    attempts: Attempts,
    *,
    trial_seconds: float = TRIAL_SECONDS,
    answer_seconds: float = ANSWER_SECONDS,
) -> None:
    """Run the self-test, or wait for the process that does.

    Raises:
        CoreHangs: a trial stopped the core; it is remembered as one that did not end.
    """
    try:
        async with asyncio.timeout(SELF_TEST_SECONDS):
            trials = await engines.begin_self_test()
            if trials:
                await _run(engines, attempts, trials, trial_seconds, answer_seconds)
            else:
                await _wait_for_the_other(engines)
    except CoreHangs:
        raise
    except Exception:
        logger.exception("outrider: the self-test could not be run; serving goes on")


async def _run(
    engines: Engines, attempts: Attempts, trials: list[Trial], trial_seconds: float, answer_seconds: float
) -> None:
    for trial in trials:
        k = trial["numSpeculativeTokens"]
        if k in attempts.unfinished:
            await engines.end_trial(k, tokens=[], fault="the engine ended in its trial at an earlier start")
            continue
        attempts.begin(k)
        await _run_trial(engines, trial, trial_seconds, answer_seconds)
        attempts.end()
    await engines.end_self_test(None)
    outcome = (await engines.state())["selfTest"]
    level = logging.INFO if outcome["state"] == SelfTestState.PASSED else logging.ERROR
    logger.log(level, "outrider: self-test %s: %s", outcome["state"], outcome["detail"])


async def _run_trial(engines: Engines, trial: Trial, seconds: float, answer_seconds: float) -> None:
    k, wanted = trial["numSpeculativeTokens"], trial["tokens"]
    await engines.begin_trial(k)
    tokens: list[int] = []
    fault: str | None = None
    try:
        async with asyncio.timeout(seconds):
            tokens = await engines.generate(PROMPT, wanted)
        if len(tokens) != wanted:
            fault = f"{len(tokens)} of {wanted} tokens came"
    except TimeoutError:
        fault = f"no answer within {seconds:.0f} s"
    except Exception as error:
        logger.exception("outrider: the self-test failed at K=%d", k)
        fault = fault_of(error)
    try:
        async with asyncio.timeout(answer_seconds):
            await engines.end_trial(k, tokens=tokens, fault=fault)
    except TimeoutError:
        raise hang(f"the self-test tried K={k}", fault, answer_seconds) from None


def fault_of(error: Exception) -> str:
    """In one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def hang(since: str, fault: str | None, seconds: float) -> CoreHangs:
    """What is told of a core that does not answer any more. fault: what was seen before; None: nothing."""
    told = f"the engine core hangs since {since}: {fault or 'it answered, and then'}"
    return CoreHangs(f"{told}, and nothing for {seconds:.0f} s more")


async def _wait_for_the_other(engines: Engines) -> None:
    while (await engines.state())["selfTest"]["state"] == SelfTestState.RUNNING:
        await asyncio.sleep(POLL_SECONDS)
