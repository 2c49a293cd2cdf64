"""Runs the self-test before the API server serves, since vLLM awaits the plugin's state first.

A failure never keeps the server from starting. It costs live tuning, or the K that failed. A core that stops
answering could not serve either: the engine ends, and its next start skips that K.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from outrider_engine.control import verbs
from outrider_engine.control.self_test import SELF_TEST_SECONDS, Trial, TrialResult
from outrider_engine.control.verbs import Engines
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_protocol.engine_state import SelfTestState, State

logger = logging.getLogger("vllm.outrider")

TRIAL_SECONDS = 60.0
ANSWER_SECONDS = 20.0
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


@dataclass(frozen=True, slots=True)
class SelfTestRun:
    """The self-test as an API server process runs it.

    trial_seconds: limit for one request.
    answer_seconds: limit for the core to answer after it.
    """

    engines: Engines
    journal: SelfTestJournal
    trial_seconds: float = TRIAL_SECONDS
    answer_seconds: float = ANSWER_SECONDS

    async def run(self) -> None:
        """Run the self-test, or wait for the process that does.

        Raises:
            CoreHangs: a request stopped the core; the journal stores it as one that did not end.
        """
        try:
            async with asyncio.timeout(SELF_TEST_SECONDS):
                if trials := await self.engines.call(verbs.BEGIN_SELF_TEST, None):
                    await self._try_all(trials)
                else:
                    await wait_while(self.engines, lambda state: state["selfTest"]["state"])
        except CoreHangs:
            raise
        except Exception:
            logger.exception("outrider: the self-test could not run; the engine serves without it")

    async def _try_all(self, trials: list[Trial]) -> None:
        prompt: list[int] | None = None
        reference: list[int] = []
        for trial in trials:
            k = trial["numSpeculativeTokens"]
            if k in self.journal.unfinished:
                why = "the engine ended in its request at an earlier start"
                result = TrialResult(numSpeculativeTokens=k, tokens=[], fault=why, tied=False)
                await self.engines.call(verbs.END_TRIAL, result)
                continue
            self.journal.begin(k)
            if prompt is None:
                prompt = await self._well_drafted(k)
            result = await self._try(trial, prompt, reference)
            await self._report(result)
            reference = reference or result["tokens"]
            self.journal.end()
        await self.engines.call(verbs.END_SELF_TEST, None)
        outcome = (await self.engines.call(verbs.STATE, None))["selfTest"]
        level = logging.INFO if outcome["state"] == SelfTestState.PASSED else logging.ERROR
        logger.log(level, "outrider: self-test %s: %s", outcome["state"], outcome["detail"])

    async def _well_drafted(self, smallest: int) -> list[int]:
        """The prompt of all requests; `PROMPT` where the engine does not answer, which its request will
        report."""
        await self.engines.call(verbs.BEGIN_TRIAL, smallest)
        try:
            async with asyncio.timeout(self.trial_seconds):
                text = await self.engines.generate(PROMPT, TEXT_TOKENS)
        except Exception:
            logger.exception("outrider: the engine gave no text for the self-test")
            return PROMPT
        return [*text, *text] if len(text) == TEXT_TOKENS else PROMPT

    async def _try(self, trial: Trial, prompt: list[int], reference: list[int]) -> TrialResult:
        k, wanted = trial["numSpeculativeTokens"], trial["tokens"]
        await self.engines.call(verbs.BEGIN_TRIAL, k)
        result = TrialResult(numSpeculativeTokens=k, tokens=[], fault=None, tied=False)
        try:
            async with asyncio.timeout(self.trial_seconds):
                tokens = result["tokens"] = await self.engines.generate(prompt, wanted)
            if len(tokens) != wanted:
                result["fault"] = f"the engine gave {len(tokens)} of {wanted} tokens"
            async with asyncio.timeout(TIE_SECONDS):
                result["tied"] = await part_at_a_tie(self.engines, prompt, tokens, reference)
        except TimeoutError:
            limit = TIE_SECONDS if result["tokens"] else self.trial_seconds
            result["fault"] = result["fault"] or f"no answer within {limit:.0f} s"
        except Exception as error:
            logger.exception("outrider: the self-test failed at K=%d", k)
            result["fault"] = fault_of(error)
        return result

    async def _report(self, result: TrialResult) -> None:
        try:
            async with asyncio.timeout(self.answer_seconds):
                await self.engines.call(verbs.END_TRIAL, result)
        except TimeoutError:
            since = f"the self-test tried K={result['numSpeculativeTokens']}"
            raise hang(since, result["fault"], self.answer_seconds) from None


async def part_at_a_tie(engines: Engines, prompt: list[int], tokens: list[int], reference: list[int]) -> bool:
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


async def wait_while(engines: Engines, state_of: Callable[[State], str]) -> None:
    """Wait while another process runs what this state is of."""
    while state_of(await engines.call(verbs.STATE, None)) == SelfTestState.RUNNING:
        await asyncio.sleep(POLL_SECONDS)


def fault_of(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def hang(since: str, fault: str | None, seconds: float) -> CoreHangs:
    """The error for a core that has stopped answering. fault: what came before; None without one."""
    began = f"the engine core hangs since {since}: {fault or 'it answered, and then'}"
    return CoreHangs(f"{began}, and nothing for {seconds:.0f} s more")
