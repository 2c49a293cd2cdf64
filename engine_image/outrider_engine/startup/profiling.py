"""Measures the startup profile after the self-test and before the API server serves, within its budget.

A failure never keeps the server from starting; it costs the profile. A core that stops answering could not
serve either: the engine ends, and its next start skips the profile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from outrider_engine.control import verbs
from outrider_engine.control.startup_profile import Visit
from outrider_engine.control.verbs import Engines
from outrider_engine.startup.readiness import fault_of, hang, wait_while
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_protocol.engine_state import SweepState

logger = logging.getLogger("vllm.outrider")

SECONDS_VARIABLE = "OUTRIDER_SWEEP_SECONDS"
SHARE_VARIABLE = "OUTRIDER_SWEEP_SHARE"
LOOK_SECONDS = 0.02
"""Interval at which the front end asks whether a visit has ended."""
ANSWER_SECONDS = 120.0
"""Limit for the core to answer before and after the profile. It answers between two steps. The last step may
compute the prompts of the maximum batch: 26 s on a CPU that does not compute in bfloat16. An engine that
counts as hung starts again."""
_MARK = 0
"""What `SelfTestJournal` stores for a profile that did not end."""


def budget_seconds(variables: Mapping[str, str], start_seconds: float) -> float:
    """Seconds for the profile of an engine that has been starting for ``start_seconds``.

    variables: of the environment; a value that cannot be read as a number counts as missing.
    """
    seconds, ratio = (
        _number(variables.get(SECONDS_VARIABLE), 20.0),
        _number(variables.get(SHARE_VARIABLE), 0.1),
    )
    return min(seconds, ratio * start_seconds)


def _number(text: str | None, otherwise: float) -> float:
    try:
        return float(text) if text else otherwise
    except ValueError:
        return otherwise


async def measure_profile(
    engines: Engines,
    journal: SelfTestJournal,
    seconds: float,
    *,
    answer_seconds: float = ANSWER_SECONDS,
) -> None:
    """Measure the profile within ``seconds``, or wait for the process that does.

    Raises:
        CoreHangs: the core stopped answering; `SelfTestJournal` stores it as a profile that did not end.
    """
    if journal.unfinished:
        logger.error("outrider: no startup profile, because the engine ended in it at an earlier start")
        return
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(answer_seconds):
            visits = await engines.call(verbs.BEGIN_PROFILE, seconds)
        if not visits:
            async with asyncio.timeout(seconds):
                await wait_while(engines, lambda state: state["startupProfile"]["state"])
            return
    except Exception:
        logger.exception("outrider: the startup profile failed to start; the engine continues without it")
        return
    journal.begin(_MARK)
    fault = await _run(engines, visits, seconds)
    await _close(engines, fault, answer_seconds)
    journal.end()


async def _run(engines: Engines, visits: list[Visit], seconds: float) -> str | None:
    """Why visits are missing; None if all were made or the budget ended."""
    try:
        async with asyncio.timeout(seconds):
            for visit in visits:
                await _visit(engines, visit)
    except TimeoutError:
        return None
    except Exception as error:
        logger.exception("outrider: the startup profile is incomplete; the engine continues with what it has")
        return fault_of(error)
    return None


async def _visit(engines: Engines, visit: Visit) -> None:
    """Keep the batch busy until every K had its steps, or until the requests have ended."""
    await engines.call(verbs.BEGIN_VISIT, visit)
    requests = [
        asyncio.create_task(engines.generate(prompt(index, visit["contextTokens"]), visit["tokens"]))
        for index in range(visit["batchSize"])
    ]
    try:
        while await engines.call(verbs.VISITING, None):
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
    await engines.call(verbs.END_VISIT, None)


async def _close(engines: Engines, fault: str | None, answer_seconds: float) -> None:
    try:
        async with asyncio.timeout(answer_seconds):
            await engines.call(verbs.END_PROFILE, fault)
            outcome = (await engines.call(verbs.STATE, None))["startupProfile"]
    except TimeoutError:
        raise hang("the startup profile", fault, answer_seconds) from None
    except Exception:
        logger.exception("outrider: the startup profile could not be closed; the engine continues without it")
        return
    level = logging.INFO if outcome["state"] == SweepState.MEASURED else logging.ERROR
    logger.log(level, "outrider: startup profile %s: %s", outcome["state"], outcome["detail"])


def prompt(index: int, tokens: int) -> list[int]:
    """A prompt of ``tokens`` token ids, different for each request and equal at every visit.

    So the cache holds each prompt separately, and prefix caching computes it once. It repeats a pattern, so
    that n-gram drafters find drafts. Small ids are in every vocabulary.
    """
    pattern = [5 + index // 8**place % 8 for place in range(4)]
    return (pattern * (tokens // len(pattern) + 1))[:tokens]


def start_seconds(process: Path = Path("/proc/self/stat")) -> float:
    """Seconds since this process began; 0 where the system does not report it."""
    try:
        # The name in the second field may hold spaces, and ends with the last parenthesis.
        ticks = int(process.read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    began = ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
