"""What an API server process does with its engine core before it serves: self-test, then startup profile."""

from __future__ import annotations

import os
from pathlib import Path

from outrider_engine.control.verbs import Engines
from outrider_engine.startup.profiling import budget_seconds, measure_profile, start_seconds
from outrider_engine.startup.readiness import SelfTestRun
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_protocol.environment import SELF_TEST_FILE_VARIABLE, SWEEP_VARIABLE

SELF_TEST_VARIABLE = "OUTRIDER_SELF_TEST"


async def test_and_profile(engines: Engines) -> None:
    """Run what the environment does not turn off.

    Raises:
        outrider_engine.startup.readiness.CoreHangs: the core stopped answering, so the engine cannot serve.
    """
    name = os.environ.get(SELF_TEST_FILE_VARIABLE)
    file = Path(name) if name else None
    if os.environ.get(SELF_TEST_VARIABLE) != "0":
        await SelfTestRun(engines, SelfTestJournal(file)).run()
    if os.environ.get(SWEEP_VARIABLE) != "0":
        seconds = budget_seconds(os.environ, start_seconds())
        journal = SelfTestJournal(file and file.with_suffix(".sweep"))
        await measure_profile(engines, journal, seconds)
