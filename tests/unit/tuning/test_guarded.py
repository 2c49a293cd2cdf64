"""Each guardrail through the law: it holds what the law would do without its cause."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outrider.tuning.choose import guardrails
from outrider.tuning.decision import Decision, Kind
from tests.unit.tuning.guarded import OBSERVATIONS, PROBING, STEP, Scene


def is_held(decision: Decision, scene: Scene) -> bool:
    held = (decision.kind, decision.reason) == (Kind.HOLD, scene.reason)
    return held and decision.schedule == scene.held.state.schedule and decision.probe is None


def test_every_guardrail_has_a_scene() -> None:
    checks = (guardrails.OBSERVATIONS, guardrails.STEP, guardrails.PROBING)
    named = [[check.__name__ for check in asked] for asked in checks]
    scenes = [[scene.__name__ for scene in some] for some in (OBSERVATIONS, STEP, PROBING)]
    assert scenes == named, "add a scene to tests/unit/tuning/guarded.py"


@pytest.mark.parametrize("guardrail", OBSERVATIONS)
def test_where_sight_is_bad_nothing_changes_and_nothing_is_tried(guardrail: Callable[[], Scene]) -> None:
    scene = guardrail()
    assert is_held(scene.held.decide(), scene)
    assert scene.free.decide().kind is Kind.EXPLORE


@pytest.mark.parametrize("guardrail", STEP)
def test_a_step_that_a_guardrail_forbids_is_not_made(guardrail: Callable[[], Scene]) -> None:
    scene = guardrail()
    assert is_held(scene.held.decide(), scene)
    assert scene.free.decide().kind is Kind.EXPLOIT


@pytest.mark.parametrize("guardrail", PROBING)
def test_where_a_guardrail_forbids_to_try_no_slice_is_asked_for(guardrail: Callable[[], Scene]) -> None:
    scene = guardrail()
    assert is_held(scene.held.decide(), scene)
    assert scene.free.decide().probe is not None
