"""Arrivals."""

from __future__ import annotations

import pytest

from outrider_lab.traffic.requests import Burst, Trace
from tests.unit.lab.factories import CODE, closed, opened


def test_open_arrivals_come_at_the_mean_rate() -> None:
    trace = Trace((opened(5.0, seconds=2000.0),))
    assert len(trace.arrivals[0]) == pytest.approx(10_000, rel=0.05)


def test_bursts_keep_the_mean_rate_and_come_in_clumps() -> None:
    burst = Burst(on_seconds=20.0, off_seconds=20.0, off_factor=0.1)
    bursty = Trace((opened(5.0, seconds=3000.0, burst=burst),)).arrivals[0]
    steady = Trace((opened(5.0, seconds=3000.0),)).arrivals[0]

    def quiet(requests: tuple[object, ...]) -> int:
        """Spans of 10 s with hardly an arrival."""
        counts = [0] * 300
        for request in requests:
            counts[int(request.arrived_at / 10)] += 1  # type: ignore[attr-defined]
        return sum(count < 15 for count in counts)

    assert len(bursty) == pytest.approx(15_000, rel=0.15)
    assert quiet(bursty) > 75 > quiet(steady)


def test_prompts_follow_the_phase_in_which_they_arrive() -> None:
    trace = Trace((opened(5.0, seconds=400.0), opened(5.0, seconds=400.0, prompt=4000.0)))
    early = [r.prompt for r in trace.arrivals[0] if r.arrived_at < 400]
    late = [r.prompt for r in trace.arrivals[0] if r.arrived_at >= 400]
    assert sorted(early)[len(early) // 2] == pytest.approx(400, rel=0.1)
    assert sorted(late)[len(late) // 2] == pytest.approx(4000, rel=0.1)


def test_harder_requests_are_accepted_less() -> None:
    easy, usual, hard = (closed(1).probability(d, 1.0) for d in range(3))
    assert easy > usual > hard
    assert usual == pytest.approx(CODE)
