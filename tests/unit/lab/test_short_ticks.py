"""Ticks shorter than the time between scrapes: most of them bring no news, and pods have theirs in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider_lab.scenario_runs import run_scenario
from outrider_lab.scenarios import EventScenario
from outrider_lab.traffic.requests import Traffic
from tests.unit.lab.factories import a_scenario

PROSE = (0.6, 0.5, 0.45, 0.4, 0.4)
"""24 streams of it on `a_step`: the static table has K=3, the best is K=1."""


def prose(*, interval: float, scrapes: float, pods: int) -> EventScenario:
    traffic = Traffic(180.0, PROSE, streams=24, prompt=20.0, output=600.0)
    scenario = a_scenario(traffic, slowness=(1.0,) * pods, scrape_interval=scrapes)
    return replace(scenario, interval=interval)


@pytest.mark.parametrize(("interval", "scrapes"), [(1.0, 5.0), (5.0, 5.0), (5.0, 15.0)])
@pytest.mark.parametrize("pods", [1, 3])
def test_the_best_k_is_found_whatever_the_ticks_and_scrapes(
    interval: float, scrapes: float, pods: int
) -> None:
    figures = run_scenario(prose(interval=interval, scrapes=scrapes, pods=pods), "outrider")[1]
    assert figures.regret is not None
    assert figures.regret < 0.02
