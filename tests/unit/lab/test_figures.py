"""The figures, on runs that a person can check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from outrider.tuning.decision import Reference, Speedup
from outrider_lab.engines.fleet import Span
from outrider_lab.figures import Curve, PhaseTruth, Truth, figures, worst_loss
from outrider_lab.replay import Replay, Step
from outrider_protocol.schedule import Schedule

K0, K1 = Schedule.constant(0), Schedule.constant(1)


def spans(*parts: tuple[float, float], off: Sequence[int] = (), pod: str = "a") -> list[Span]:
    """One after another: (seconds, tokens per second); indices in `off` are probes."""
    found, at = [], 0.0
    for index, (seconds, rate) in enumerate(parts):
        found.append(Span(pod, at, seconds, seconds, seconds * rate, 8.0, index in off))
        at += seconds
    return found


def truth(*phases: tuple[float, float], none: float = 100.0) -> Truth:
    """One after another: (seconds, best tokens per second); the best K is 1."""
    found, at = [], 0.0
    for seconds, rate in phases:
        best = Curve.of([Span("a", at, seconds, seconds, seconds * rate, 8.0, off_table=False)])
        found.append(PhaseTruth("load 8", at, at + seconds, 8.0, {0: none, 1: rate}, best))
        at += seconds
    ratios = {(i, 1): rate / none for i, (_, rate) in enumerate(phases)}
    return Truth(tuple(found), Curve.of(spans((at, none))), ratios)


def a_run(found: Sequence[Span], *steps: Step) -> Replay:
    return Replay(tuple(found), steps or (step(5.0),), first_tick=5.0)


def step(at: float, schedule: Schedule = K1, *, speedup: Speedup | None = None) -> Step:
    return Step(at, schedule, speedup, batch_size=8.0)


def test_a_reported_speedup_of_engines_that_choose_k_is_held_against_what_they_ran_in_a_minute() -> None:
    """Half of that minute at 100 tokens per second, half at 200; a launch without a drafter has 100."""
    reported = Speedup(1.5, 1.4, 1.6, Reference.PROBE, measured_at=0.0)
    choosing = replace(step(100.0, speedup=reported), follows=True)
    run, possible = spans((70, 100), (50, 200)), truth((120, 200))
    assert figures(a_run(run, choosing), possible).coverage == 1.0
    assert figures(a_run(run, replace(choosing, follows=False)), possible).coverage == 0.0


def test_regret_counts_after_120_s_and_the_overall_one_from_the_start() -> None:
    judged = figures(a_run(spans((150, 50), (150, 100))), truth((300, 100)))
    assert judged.regret == pytest.approx(1 - (30 * 50 + 150 * 100) / (180 * 100))
    assert judged.overall_regret == pytest.approx(0.25)
    assert judged.goodput == pytest.approx(75)


@pytest.mark.parametrize("number", range(20))
def test_pods_are_added_up_in_the_order_of_their_names(number: int) -> None:
    # Two at 1 token and one at 1e16: in any other order a token is lost to rounding, and the order
    # of a set of names is another one in each process.
    rates = zip((f"{number}/a", f"{number}/b", f"{number}/c"), (1.0, 1.0, 1e16), strict=True)
    run = [span for pod, rate in rates for span in spans((1.0, rate), pod=pod)]
    assert Curve.of(run).tokens[-1] == 1e16 + 2


def test_regret_is_the_mean_over_phases() -> None:
    judged = figures(a_run(spans((200, 100), (200, 50))), truth((200, 100), (200, 100)))
    assert [p.overall_regret for p in judged.phases] == pytest.approx([0.0, 0.5])
    assert judged.overall_regret == pytest.approx(0.25)


def test_the_worst_loss_is_that_of_the_worst_two_minutes() -> None:
    judged = figures(a_run(spans((200, 110), (60, 40), (240, 110))), truth((500, 110)))
    assert judged.worst_loss == pytest.approx(1 - (60 * 40 + 60 * 110) / (120 * 100))


def test_a_loss_before_the_first_decision_does_not_count() -> None:
    mine, other = Curve.of(spans((50, 1), (250, 100))), Curve.of(spans((300, 100)))
    assert worst_loss(mine, other, 50.0, 300.0) == pytest.approx(0)
    assert worst_loss(mine, other, 0.0, 300.0) > 0.4


def test_the_optimum_is_reached_when_the_next_30_s_are_within_5_percent() -> None:
    judged = figures(a_run(spans((40, 80), (260, 100))), truth((300, 100)))
    # 30 s from t on: (40 - t) s at 80 and the rest at 100, which is 95 on the mean from t = 32.5 on.
    assert judged.seconds_to_optimum == 33


def test_a_change_of_the_tables_k_at_the_load_is_a_switch() -> None:
    steps = [step(t, K1 if t < 200 else K0) for t in range(5, 300, 5)]
    judged = figures(a_run(spans((300, 100)), *steps), truth((300, 100)))
    assert judged.switches == 1
    assert judged.switches_per_hour == pytest.approx(3600 / 180)


def test_probes_of_one_pod_of_two_count_half() -> None:
    both = [*spans((100, 50), (20, 50), (180, 50), off=(1,)), *spans((300, 50), pod="b")]
    judged = figures(a_run(both), truth((300, 50)))
    assert judged.probe_share == pytest.approx(10 / 300)
    assert judged.calibration_seconds == pytest.approx(10)
    assert judged.steady_probe_share == 0


def test_coverage_is_the_share_of_intervals_that_hold_the_truth() -> None:
    def said(low: float, high: float) -> Speedup:
        return Speedup((low + high) / 2, low, high, Reference.PROBE, 0.0)

    steps = (step(100, speedup=said(1.1, 1.3)), step(200, speedup=said(1.3, 1.5)), step(250))
    judged = figures(a_run(spans((300, 120)), *steps), truth((300, 120), none=100.0))
    assert judged.coverage == 0.5


def test_idle_time_is_no_loss() -> None:
    busy = Span("a", 0.0, 100.0, 50.0, 5000.0, 8.0, off_table=False)
    idle = Span("a", 100.0, 100.0, 0.0, 0.0, 0.0, off_table=False)
    curve = Curve.of([busy, idle])
    assert float(curve.goodput(0.0, 200.0)) == pytest.approx(100)
    assert np.isnan(float(curve.goodput(120.0, 180.0)))
