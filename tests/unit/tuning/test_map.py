"""A map of step times: believed as far as it foretold live steps, and no further."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import exp, log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.tuning.decision import Decision
from outrider.tuning.estimate.model_averaging import Prediction, blend
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.estimate.surface import ObservedCell, Point, of_live_steps
from outrider.tuning.observe.window import Cell
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.tuning.factories import (
    CANDIDATES,
    POLICY,
    Engine,
    a_cell,
    a_known,
    a_map,
    a_start,
    run,
    true_step,
)


def live(batch: float, k: int, *, pace: float = 1.0, seconds: float = 60.0) -> ObservedCell:
    return a_known(batch=batch, k=k, step=pace * true_step(batch, k), seconds=seconds)


def told(known: tuple[ObservedCell, ...], step_times: StepTimeProfile | None, *points: Point) -> Prediction:
    return blend(known, step_times, points, POLICY.estimation, noise=0.05, now=0.0)


def error_of_gain(found: Prediction) -> float:
    """Standard error of the log of the second step time over the first."""
    c = found.covariance
    return float(np.sqrt(c[0, 0] + c[1, 1] - 2 * c[0, 1]))


PAIR = (Point(0, log2(8.0), None), Point(3, log2(8.0), None))


@given(seconds=st.floats(0.1, 1000.0), k=st.sampled_from(CANDIDATES))
@settings(max_examples=20)
def test_without_a_map_of_several_k_nothing_is_told_but_what_live_steps_tell(seconds: float, k: int) -> None:
    known = (live(8.0, k, seconds=seconds),)
    means, covariance = of_live_steps(known, POLICY.estimation, noise=0.05, now=0.0).predict(PAIR)
    of_one_k = StepTimeProfile(tuple(cell for cell in a_map().cells if cell.k == 0))
    for step_times in (None, StepTimeProfile(()), of_one_k):
        found = told(known, step_times, *PAIR)
        assert np.array_equal(found.means, means)
        assert np.array_equal(found.covariance, covariance)
        assert found.trust == 0.0


def test_a_map_that_foretold_live_steps_tells_of_what_never_ran() -> None:
    found = told((live(8.0, 3),), a_map(), *PAIR)
    assert found.trust > 0.95
    assert found.means[1] - found.means[0] == pytest.approx(
        log(true_step(8.0, 3) / true_step(8.0, 0)), abs=0.03
    )
    assert error_of_gain(found) < 0.25 * error_of_gain(told((live(8.0, 3),), None, *PAIR))


@pytest.mark.parametrize("scale", [0.7, 0.95, 1.4])
def test_the_scale_between_a_map_and_live_steps_is_learnt(scale: float) -> None:
    found = told((live(8.0, 3),), a_map(off=lambda _batch, _k: scale), Point(0, log2(8.0), None))
    assert exp(found.means[0]) == pytest.approx(true_step(8.0, 0), rel=0.05)


def test_a_slope_in_batch_between_a_map_and_live_steps_is_learnt() -> None:
    step_times = a_map(off=lambda batch, _k: batch**0.03)
    known = tuple(live(batch, 3) for batch in (1.0, 4.0, 16.0))
    found = told(known, step_times, Point(0, log2(32.0), None))
    assert exp(found.means[0]) == pytest.approx(true_step(32.0, 0), rel=0.05)


def test_a_map_of_other_engines_tells_nothing_once_live_steps_deny_it() -> None:
    """One on which drafts cost twice as much."""
    wrong = a_map(off=lambda batch, k: (1 + k) ** 0.7 * (3.0 if batch > 8 else 1.0))
    known = tuple(live(batch, k) for batch in (8.0, 16.0) for k in (0, 3))
    alone, with_map = told(known, None, *PAIR), told(known, wrong, *PAIR)
    assert with_map.trust < 0.01
    assert with_map.means == pytest.approx(alone.means, abs=0.01)


def test_a_map_is_less_sure_of_a_context_at_which_it_was_not_measured() -> None:
    near, far = (
        (Point(0, log2(8.0), log2(context)), Point(5, log2(8.0), log2(context)))
        for context in (512.0, 32768.0)
    )
    known, step_times = (live(8.0, 3),), a_map(context=512.0)
    assert error_of_gain(told(known, step_times, *far)) > 2 * error_of_gain(told(known, step_times, *near))


def test_a_cell_with_a_larger_error_is_believed_less() -> None:
    sure, unsure = (told((live(8.0, 3),), a_map(error=error), *PAIR) for error in (0.02, 0.08))
    assert error_of_gain(unsure) > 1.3 * error_of_gain(sure)


@pytest.mark.parametrize(
    "cell",
    [(0.5, 1, None, 0.1, 0.1), (1.0, -1, None, 0.1, 0.1), (1.0, 1, 0.0, 0.1, 0.1), (1.0, 1, None, 0.0, 0.1),
     (1.0, 1, None, float("nan"), 0.1), (1.0, 1, None, 0.1, 0.0)],
)  # fmt: skip
def test_a_cell_that_no_engine_can_have_measured_is_refused(
    cell: tuple[float, int, float | None, float, float],
) -> None:
    with pytest.raises(ValueError, match="not a step time"):
        MapCell(*cell)


def ticks(
    state: TunerState, engine: Engine, count: int, step_times: StepTimeProfile | None
) -> list[Decision]:
    """Of 5 s each."""
    return run(state, engine, ticks=count, step_times=step_times)


def slices(decisions: list[Decision]) -> int:
    return sum(len(d.probe.slices) for d in decisions if d.probe is not None)


def test_with_a_map_the_best_k_takes_over_at_the_first_tick() -> None:
    """16 streams, where K=0 is best; the table has 3 and no other K ever ran."""
    first, *_ = ticks(a_start(3), Engine(16.0), 1, a_map())
    assert first.schedule.k_at(16) == 0


@pytest.mark.parametrize("batch", [4.0, 16.0, 32.0])
def test_with_a_map_fewer_slices_are_run(batch: float) -> None:
    with_map, without = (ticks(a_start(3), Engine(batch), 24, m) for m in (a_map(), None))
    assert slices(with_map) < 0.5 * slices(without)


def test_a_wrong_map_does_not_keep_the_best_k_away() -> None:
    """It says that long drafts are free at 16 streams."""
    wrong = a_map(off=lambda _batch, k: 1.0 / (1.0 + k))
    last = ticks(a_start(3), Engine(16.0), 24, wrong)[-1]
    assert last.schedule.k_at(16) == 0


def test_an_engine_that_slows_down_on_every_k_keeps_what_the_map_says_of_their_ratios() -> None:
    state = ticks(a_start(3), Engine(16.0), 12, a_map())[-1].state
    later = ticks(state, Engine(16.0, pace=1.4), 12, a_map())
    assert all(d.schedule.k_at(16) == 0 for d in later)


def after_first_window(*further: Cell) -> Posterior:
    """What is estimated after 5 s of K=3 amid prompts, and further steps."""
    state = a_start(3)
    window = Engine(16.0, prompts=10.0).window(None, state, seconds=5.0, at=5.0)
    seen = replace(window, cells=(*window.cells, *further))
    outlook = decide(TickContext([seen], state, policy=POLICY, now=5.0, step_times=a_map())).outlook
    assert outlook is not None
    return outlook.posterior


@pytest.mark.parametrize("steps", [1.0, 2.0])
@pytest.mark.parametrize("seconds", [0.5, 2.0, 20.0])
def test_a_first_step_that_waits_for_a_kernel_denies_nothing(steps: float, seconds: float) -> None:
    """It reads the prompts of all streams, so it alone would decide what prompts cost."""
    waiting = replace(
        a_cell(batch=16.0, k=5, prefill=600.0),
        steps=steps,
        step_seconds=seconds,
        requests=16.0 * steps,
        emitted_tokens=32.0 * steps,
        prefill_tokens=600.0 * steps,
        context_tokens=500.0 * 16.0 * steps,
    )
    usual, after = after_first_window(), after_first_window(waiting)
    for k in CANDIDATES:
        assert after.step_seconds(k) == pytest.approx(usual.step_seconds(k), rel=0.02)


def test_what_was_settled_with_a_map_is_open_again_once_live_steps_deny_it() -> None:
    """At 16 streams one cell is far too fast, so K=5 takes over and is settled before it was measured."""
    wrong = a_map(off=lambda batch, k: 0.4 if (batch, k) == (16, 5) else 1.0)
    decisions = ticks(a_start(3), Engine(16.0), 24, wrong)
    index = POLICY.bin_of(16)
    settled = [d.state.bins[index].settled_at is not None for d in decisions]
    assert any(before and not after for before, after in pairwise(settled))
    assert decisions[-1].schedule.k_at(16) == 0
