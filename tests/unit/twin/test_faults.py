"""Faults strike in the steps that are named, and in no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider_twin.faults import Faults, Kind, Trigger
from outrider_twin.settings import Behaviour
from outrider_twin.step_time import Load
from tests.unit.twin.factories import a_load

LOADS = st.builds(a_load, k=st.integers(0, 8), batch=st.integers(1, 64))


@given(LOADS, st.integers(0, 10**6))
def test_without_faults_every_step_is_an_ordinary_one(load: Load, step: int) -> None:
    assert Faults().strikes(load, step) is None


@pytest.mark.parametrize("kind", Kind)
def test_a_fault_has_its_name(kind: Kind) -> None:
    assert Faults.model_validate({kind.value: {}}).strikes(a_load(), 0) is kind


@pytest.mark.parametrize(
    ("trigger", "hit"),
    [
        (Trigger(k=3), True),
        (Trigger(k=2), False),
        (Trigger(batch=4), True),
        (Trigger(batch=5), False),
        (Trigger(after_steps=10), True),
        (Trigger(after_steps=11), False),
        (Trigger(k=3, batch=5), False),
    ],
    ids=str,
)
def test_a_trigger_holds_where_all_of_it_does(trigger: Trigger, hit: bool) -> None:
    assert trigger.hits(a_load(k=3, batch=4), 10) is hit


def test_full_length_drafting_ignores_the_k_of_a_step() -> None:
    assert Faults().drafted(2, 5) == 2
    assert Faults(draft_full_length=True).drafted(2, 5) == 5


@pytest.mark.parametrize("faults", [{"no_start": "no_cache"}, {"start_seconds": 1}], ids=str)
def test_the_start_of_an_engine_that_runs_can_no_longer_fail(faults: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="a running engine has no start"):
        Behaviour.model_validate({"faults": faults})


def test_a_misspelt_fault_is_refused() -> None:
    with pytest.raises(ValidationError):
        Faults.model_validate({"crahs": {}})
