"""Pushes and scrapes wait for the running step. The engine reports how long that can be."""

from __future__ import annotations

import pytest

from tests.contract.engine import Engine
from tests.contract.measuring import run_streams, scrape, settled

pytestmark = pytest.mark.contract


def test_the_longest_step_is_told_and_no_mean_exceeds_it(engine: Engine) -> None:
    before = scrape(engine)
    counted = settled(
        engine, before=before, tokens=run_streams(engine, streams=4, requests=1, max_tokens=8, name="long")
    )
    longest = scrape(engine).total("outrider:longest_step_seconds")
    steps = counted.by("outrider:steps_total", "batch")
    seconds = counted.by("outrider:step_seconds_total", "batch")
    assert steps
    assert all(seconds[batch] / steps[batch] <= longest * 1.001 for batch in steps)
