"""Pods on a throughput table: truth, noise, probes."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from outrider.tuning.decision import Probe, Slice
from outrider.tuning.observe.window import Window
from outrider_lab.engines.table_engine import Phase, TableFleet
from outrider_protocol.schedule import Row, Schedule
from tests.unit.lab.factories import EDGES, K1, a_fleet, a_table

POD = "default/engine-0"


def window(fleet: TableFleet, until: float, schedule: Schedule = K1, probe: Probe | None = None) -> Window:
    observation = fleet.advance(until, schedule, probe).observations[0]
    assert isinstance(observation, Window)
    return observation


def a_probe(*slices: tuple[int, float], low: int = 7, high: int | None = 12) -> Probe:
    return Probe(POD, low, high, tuple(Slice(k, seconds) for k, seconds in slices))


def test_without_noise_a_window_shows_the_tables_goodput() -> None:
    seen = window(a_fleet(load=8), 10.0)
    assert seen.goodput == pytest.approx(360)
    assert seen.batch_size == 8
    assert seen.mean_k == 1


@pytest.mark.parametrize("seconds", [2.5, 10.0, 40.0])
def test_the_noise_is_that_of_ten_seconds_and_falls_with_the_root_of_time(seconds: float) -> None:
    fleet = a_fleet(noise=0.05, seed=3)
    seen = [window(fleet, seconds * i).goodput for i in range(1, 2001)]
    relative = np.array(seen, dtype=float) / 360 - 1
    assert relative.std() == pytest.approx(0.05 * sqrt(10 / seconds), rel=0.06)
    assert abs(relative.mean()) < 4 * 0.05 * sqrt(10 / seconds) / sqrt(2000)


def test_tokens_are_steps_and_accepted_drafts() -> None:
    seen = window(a_fleet(noise=0.05), 5.0)
    assert seen.decode_tokens == pytest.approx(seen.request_steps + seen.accepted_tokens)


def test_a_tick_over_two_loads_is_seen_as_such() -> None:
    phases = [Phase(2, 4.0, a_table()), Phase(32, 6.0, a_table())]
    fleet = TableFleet(phases, edges=EDGES, rng=np.random.default_rng(0), noise=0.0)
    seen = window(fleet, 10.0)
    assert (seen.batch_low, seen.batch_high) == (2, 32)
    assert {c.low: c.step_seconds for c in seen.cells} == pytest.approx({2: 4.0, 25: 6.0})


def test_slices_run_at_once_and_then_the_table_returns() -> None:
    fleet = a_fleet(load=8)
    tick = fleet.advance(5.0, K1, a_probe((0, 1.5)))
    assert [(s.off_table, s.seconds) for s in tick.spans] == [(True, 1.5), (False, 3.5)]
    assert not any(s.off_table for s in fleet.advance(10.0, K1, None).spans)


def test_a_probe_gives_one_cell_per_k_with_its_own_seconds() -> None:
    seen = window(a_fleet(load=8), 5.0, probe=a_probe((0, 1.0), (1, 0.5)))
    assert {c.num_speculative_tokens: c.step_seconds for c in seen.cells} == {
        0: pytest.approx(1.0),
        1: pytest.approx(4.0),
    }


def test_a_probe_counts_in_the_truth() -> None:
    tick = a_fleet(load=8).advance(5.0, K1, a_probe((0, 2.0)))
    assert sum(s.tokens for s in tick.spans) == pytest.approx(2 * 300 + 3 * 360)


def test_another_table_ends_a_probe_and_the_same_one_does_not() -> None:
    renewed, changed = a_fleet(load=8), a_fleet(load=8)
    for fleet in (renewed, changed):
        fleet.advance(0.5, K1, a_probe((0, 8.0)))
        fleet.advance(1.0, K1, a_probe((0, 8.0)))
    other = Schedule((Row(4, 0), Row(None, 1)))
    assert any(s.off_table for s in renewed.advance(2.0, K1, None).spans)
    assert not any(s.off_table for s in changed.advance(2.0, other, None).spans)
