"""The step-time surface."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.tuning.estimate.surface import ObservedCell, Point, of_live_steps
from tests.unit.tuning.factories import POLICY, a_known


def a_point(*, batch: float = 8.0, k: int = 3, context: float | None = None) -> Point:
    return Point(k, log2(batch), None if context is None else log2(context))


def asked(known: list[ObservedCell], *points: Point, now: float = 0.0) -> tuple[list[float], list[float]]:
    means, covariance = of_live_steps(known, POLICY.estimation, noise=0.05, now=now).predict(points)
    return [exp(m) for m in means], [float(d) ** 0.5 for d in np.diag(covariance)]


def test_what_was_measured_long_is_believed() -> None:
    (step,), (error,) = asked([a_known(step=0.08, seconds=600.0)], a_point())
    assert step == pytest.approx(0.08, rel=0.01)
    assert error < 0.01


def test_a_neighbouring_batch_size_is_known_in_part() -> None:
    _, errors = asked([a_known()], a_point(), a_point(batch=12.0), a_point(batch=64.0))
    assert errors == sorted(errors)
    assert errors[-1] < asked([], a_point(batch=64.0))[1][0]


def test_another_k_is_known_in_part() -> None:
    known = [a_known(k=0, step=0.02), a_known(k=3, step=0.03)]
    (_, between), (_, error) = asked(known, a_point(k=0), a_point(k=2))
    assert 0.02 < between < 0.03
    assert error < 0.2


def test_old_measurements_count_less() -> None:
    known = [a_known(seconds=5.0)]
    fresh, old = (asked(known, a_point(), now=now)[1][0] for now in (0.0, 3600.0))
    assert fresh < 0.8 * old


def test_two_measurements_of_one_cell_weigh_by_their_time() -> None:
    both = a_known(step=0.02, seconds=30.0).plus(a_known(step=0.08, seconds=10.0), POLICY.estimation)
    assert both.log_step == pytest.approx(0.75 * log(0.02) + 0.25 * log(0.08))
    assert both.seconds == 40.0


def test_measurements_with_and_without_prompts_make_no_new_relation_when_they_are_joined() -> None:
    writes, reads = a_known(step=0.02), a_known(step=0.08, prefill=96.0)  # four times as many tokens
    both = writes.plus(reads, POLICY.estimation)
    assert both.log_step - both.log_prompts == pytest.approx(log(0.02))


def test_what_prompts_cost_is_learnt_from_one_k_for_the_others() -> None:
    known = [a_known(batch=b, step=0.001 * (4 * b + 96), prefill=96.0, seconds=300.0) for b in (2.0, 4.0)]
    known += [a_known(batch=b, step=0.001 * 4 * b, seconds=300.0) for b in (8.0, 16.0)]
    amid_prompts = a_known(k=0, step=0.001 * (8 + 96), prefill=96.0)
    (step,), _ = asked([*known, amid_prompts], a_point(k=0))
    assert step == pytest.approx(0.008, rel=0.3)


def test_a_longer_context_is_expected_to_be_slower() -> None:
    (short, long), _ = asked([a_known(context=512.0)], a_point(context=512.0), a_point(context=8192.0))
    assert long > short


@given(
    st.lists(
        st.builds(
            a_known,
            batch=st.floats(1, 64),
            k=st.sampled_from((0, 1, 2, 3, 5)),
            step=st.floats(1e-4, 10),
            seconds=st.floats(0.01, 1e4),
        ),
        max_size=20,
    )
)
def test_more_measurements_never_make_anything_less_certain(known: list[ObservedCell]) -> None:
    points = (a_point(k=0), a_point(k=5), a_point(batch=1.0))
    _, before = of_live_steps(known[:-1], POLICY.estimation, noise=0.05, now=0.0).predict(points)
    _, after = of_live_steps(known, POLICY.estimation, noise=0.05, now=0.0).predict(points)
    assert np.all(np.diag(after) <= np.diag(before) + 1e-6)
    assert np.all(np.linalg.eigvalsh(after) > -1e-6)


def test_a_measurement_that_lost_its_weight_is_no_obstacle() -> None:
    assert np.isfinite(asked([replace(a_known(), seconds=0.0)], a_point())[0]).all()
