"""Each guardrail through the law: it holds what the law would do without its cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from outrider.tuning.choose import guardrails
from outrider.tuning.decision import Decision, Kind
from outrider.tuning.observe.window import Window
from tests.unit.tuning.guarded import OBSERVATIONS, PROBING, STEP, Scene, acceptance_collapse


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


def test_drafts_that_adaptive_verification_trimmed_are_no_collapse() -> None:
    """Of a quarter of the drafts the target verified the first token, and accepted 60 % of these."""
    tick = acceptance_collapse().held
    (window,) = tick.seen
    assert isinstance(window, Window)
    (cell,) = window.cells
    trimmed = tuple(0.75 * drafts for drafts in cell.drafted_per_position)
    seen = (replace(window, cells=(replace(cell, trimmed_per_position=trimmed),)),)
    assert tick.decide().acceptance_collapsed
    assert not replace(tick, seen=seen).decide().acceptance_collapsed


def test_trimmed_drafts_gain_no_tokens() -> None:
    """What the tuner expects of a K is what was accepted of all that was drafted."""
    tick = acceptance_collapse().held
    (window,) = tick.seen
    assert isinstance(window, Window)
    (cell,) = window.cells
    seen = (replace(window, cells=(replace(cell, trimmed_per_position=cell.drafted_per_position),)),)
    assert replace(tick, seen=seen).decide().state.learning.profile == tick.decide().state.learning.profile


@pytest.mark.parametrize("guardrail", PROBING)
def test_where_a_guardrail_forbids_to_try_no_slice_is_asked_for(guardrail: Callable[[], Scene]) -> None:
    scene = guardrail()
    assert is_held(scene.held.decide(), scene)
    assert scene.free.decide().probe is not None
