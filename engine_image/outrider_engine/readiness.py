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
"""Small ids are in every vocabulary. What the model says to them, said twice, is the prompt of the trials: a
text that drafters know well, and that n-gram finds."""
TEXT_TOKENS = 24
TIE_SECONDS = 150.0
"""That the question how close two tokens are may take: vLLM compiles what ranks log-probabilities first."""
TIE = 0.25
"""Nats between two tokens below which rounding decides, as `outrider verify` has it: logits of 16 to 32 in
bfloat16 are 0.125 apart, and both may be rounded."""

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

    async def end_trial(self, k: int, *, tokens: list[int], fault: str | None, tied: bool) -> None:
        """End one trial."""
        ...

    async def end_self_test(self, fault: str | None) -> None:
        """End the self-test."""
        ...

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """Greedy tokens."""
        ...

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        """Log-probabilities of the likeliest next tokens."""
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
    prompt: list[int] | None = None
    reference: list[int] = []
    for trial in trials:
        k = trial["numSpeculativeTokens"]
        if k in attempts.unfinished:
            why = "the engine ended in its trial at an earlier start"
            await engines.end_trial(k, tokens=[], fault=why, tied=False)
            continue
        attempts.begin(k)
        if prompt is None:
            prompt = await _well_drafted(engines, k, trial_seconds)
        tokens = await _run_trial(engines, trial, prompt, reference, trial_seconds, answer_seconds)
        reference = reference or tokens
        attempts.end()
    await engines.end_self_test(None)
    outcome = (await engines.state())["selfTest"]
    level = logging.INFO if outcome["state"] == SelfTestState.PASSED else logging.ERROR
    logger.log(level, "outrider: self-test %s: %s", outcome["state"], outcome["detail"])


async def _well_drafted(engines: Engines, smallest: int, seconds: float) -> list[int]:
    """The prompt of all trials; `PROMPT` where the engine does not answer, which its trial finds, too."""
    await engines.begin_trial(smallest)
    try:
        async with asyncio.timeout(seconds):
            text = await engines.generate(PROMPT, TEXT_TOKENS)
    except Exception:
        logger.exception("outrider: no text for the self-test")
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
    await engines.begin_trial(k)
    tokens: list[int] = []
    fault: str | None = None
    tied = False
    try:
        async with asyncio.timeout(seconds):
            tokens = await engines.generate(prompt, wanted)
        if len(tokens) != wanted:
            fault = f"{len(tokens)} of {wanted} tokens came"
        async with asyncio.timeout(TIE_SECONDS):
            tied = await _part_at_a_tie(engines, prompt, tokens, reference)
    except TimeoutError:
        fault = fault or f"no answer within {TIE_SECONDS if tokens else seconds:.0f} s"
    except Exception as error:
        logger.exception("outrider: the self-test failed at K=%d", k)
        fault = fault_of(error)
    try:
        async with asyncio.timeout(answer_seconds):
            await engines.end_trial(k, tokens=tokens, fault=fault, tied=tied)
    except TimeoutError:
        raise hang(f"the self-test tried K={k}", fault, answer_seconds) from None
    return tokens


async def _part_at_a_tie(
    engines: Engines, prompt: list[int], tokens: list[int], reference: list[int]
) -> bool:
    """Whether two greedy answers part where two tokens are about as likely as each other.

    Kernels for batches of other shapes round otherwise. A prefill of what both have in common is asked: it
    takes no step before it for granted.
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
    """In one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def hang(since: str, fault: str | None, seconds: float) -> CoreHangs:
    """What is told of a core that does not answer any more. fault: what was seen before; None: nothing."""
    told = f"the engine core hangs since {since}: {fault or 'it answered, and then'}"
    return CoreHangs(f"{told}, and nothing for {seconds:.0f} s more")


async def _wait_for_the_other(engines: Engines) -> None:
    while (await engines.state())["selfTest"]["state"] == SelfTestState.RUNNING:
        await asyncio.sleep(POLL_SECONDS)
