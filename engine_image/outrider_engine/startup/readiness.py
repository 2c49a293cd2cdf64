"""Runs the self-test before the API server serves, since vLLM awaits the plugin's state first.

A failure never keeps the server from starting. It costs live tuning, or the K that failed. A core that stops
answering could not serve either: the engine ends, and its next start skips that K.
"""

from __future__ import annotations

import asyncio
import logging

from outrider_engine.control.self_test import SELF_TEST_SECONDS, Trial, TrialResult
from outrider_engine.control.verbs import (
    BEGIN_SELF_TEST,
    BEGIN_TRIAL,
    END_SELF_TEST,
    END_TRIAL,
    STATE,
    Engines,
)
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_protocol.engine_state import SelfTestState

logger = logging.getLogger("vllm.outrider")

TRIAL_SECONDS = 60.0
ANSWER_SECONDS = 20.0
"""Limit for the core to answer after a request of the self-test that got no answer."""
PROMPT = [5, 6, 7, 8] * 6
"""Small ids are in every vocabulary. The model's answer to them, repeated once, is the prompt of the
self-test. Drafters predict such a text well, and n-gram finds it."""
TEXT_TOKENS = 24
TIE_SECONDS = 150.0
"""Limit for the comparison of two tokens: vLLM first compiles the kernel that ranks log-probabilities."""
TIE = 0.25
"""Nats between two tokens below which rounding decides, as in `outrider verify`. Logits of 16 to 32 are 0.125
apart in bfloat16, and both may be rounded."""

POLL_SECONDS = 0.2


class CoreHangs(Exception):
    """The engine core has stopped answering."""


async def self_test(
    engines: Engines,
    journal: SelfTestJournal,
    *,
    trial_seconds: float = TRIAL_SECONDS,
    answer_seconds: float = ANSWER_SECONDS,
) -> None:
    """Run the self-test, or wait for the process that does.

    Raises:
        CoreHangs: a request stopped the core; `SelfTestJournal` stores it as one that did not end.
    """
    try:
        async with asyncio.timeout(SELF_TEST_SECONDS):
            trials = await engines.call(BEGIN_SELF_TEST, None)
            if trials:
                await _run(engines, journal, trials, trial_seconds, answer_seconds)
            else:
                await _wait_for_the_other(engines)
    except CoreHangs:
        raise
    except Exception:
        logger.exception("outrider: the self-test could not run; the engine serves without it")


async def _run(
    engines: Engines,
    journal: SelfTestJournal,
    trials: list[Trial],
    trial_seconds: float,
    answer_seconds: float,
) -> None:
    prompt: list[int] | None = None
    reference: list[int] = []
    for trial in trials:
        k = trial["numSpeculativeTokens"]
        if k in journal.unfinished:
            why = "the engine ended in its request at an earlier start"
            result = TrialResult(numSpeculativeTokens=k, tokens=[], fault=why, tied=False)
            await engines.call(END_TRIAL, result)
            continue
        journal.begin(k)
        if prompt is None:
            prompt = await _well_drafted(engines, k, trial_seconds)
        tokens = await _run_trial(engines, trial, prompt, reference, trial_seconds, answer_seconds)
        reference = reference or tokens
        journal.end()
    await engines.call(END_SELF_TEST, None)
    outcome = (await engines.call(STATE, None))["selfTest"]
    level = logging.INFO if outcome["state"] == SelfTestState.PASSED else logging.ERROR
    logger.log(level, "outrider: self-test %s: %s", outcome["state"], outcome["detail"])


async def _well_drafted(engines: Engines, smallest: int, seconds: float) -> list[int]:
    """The prompt of all requests; `PROMPT` where the engine does not answer, which its request will
    report."""
    await engines.call(BEGIN_TRIAL, smallest)
    try:
        async with asyncio.timeout(seconds):
            text = await engines.generate(PROMPT, TEXT_TOKENS)
    except Exception:
        logger.exception("outrider: the engine gave no text for the self-test")
        return PROMPT
    return [*text, *text] if len(text) == TEXT_TOKENS else PROMPT


async def _run_trial(
    engines: Engines,
    trial: Trial,
    prompt: list[int],
    reference: list[int],
    seconds: float,
    answer_seconds: float,
) -> list[int]:
    """Its tokens."""
    k, wanted = trial["numSpeculativeTokens"], trial["tokens"]
    await engines.call(BEGIN_TRIAL, k)
    tokens: list[int] = []
    fault: str | None = None
    tied = False
    try:
        async with asyncio.timeout(seconds):
            tokens = await engines.generate(prompt, wanted)
        if len(tokens) != wanted:
            fault = f"the engine gave {len(tokens)} of {wanted} tokens"
        async with asyncio.timeout(TIE_SECONDS):
            tied = await _part_at_a_tie(engines, prompt, tokens, reference)
    except TimeoutError:
        fault = fault or f"no answer within {TIE_SECONDS if tokens else seconds:.0f} s"
    except Exception as error:
        logger.exception("outrider: the self-test failed at K=%d", k)
        fault = fault_of(error)
    try:
        async with asyncio.timeout(answer_seconds):
            await engines.call(
                END_TRIAL, TrialResult(numSpeculativeTokens=k, tokens=tokens, fault=fault, tied=tied)
            )
    except TimeoutError:
        raise hang(f"the self-test tried K={k}", fault, answer_seconds) from None
    return tokens


async def _part_at_a_tie(
    engines: Engines, prompt: list[int], tokens: list[int], reference: list[int]
) -> bool:
    """Whether two greedy answers differ first at two tokens that are about equally likely.

    Kernels round differently for batches of other shapes. A fresh prefill of the common prefix depends on no
    step before it.
    """
    pairs = enumerate(zip(tokens, reference, strict=False))
    parted = next((place for place, (ours, theirs) in pairs if ours != theirs), None)
    if parted is None:
        return False
    likeliest = await engines.likeliest([*prompt, *reference[:parted]])
    chances = [likeliest.get(answer[parted]) for answer in (tokens, reference)]
    known = [chance for chance in chances if chance is not None]
    return len(known) == len(chances) and max(known) - min(known) <= TIE


def fault_of(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def hang(since: str, fault: str | None, seconds: float) -> CoreHangs:
    """The error for a core that has stopped answering. fault: what came before; None without one."""
    began = f"the engine core hangs since {since}: {fault or 'it answered, and then'}"
    return CoreHangs(f"{began}, and nothing for {seconds:.0f} s more")


async def _wait_for_the_other(engines: Engines) -> None:
    while (await engines.call(STATE, None))["selfTest"]["state"] == SelfTestState.RUNNING:
        await asyncio.sleep(POLL_SECONDS)
