"""The tuner's part of the status, of models that it does not tune any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.cluster.resources import MODELS
from tests.unit.controller.factories import a_condition, a_raw_model
from tests.unit.controller.place import KEY, Place
from tests.unit.controller.target_place import TargetPlace

TUNERS: dict[str, Any] = {
    "conditions": [a_condition("ActuationConverged", "False", reason="Pending")],
    "speculation": {"state": "Active", "appliedReplicas": 3},
    "decisions": [],
}
NO_DRAFTER: dict[str, Any] = {"speculation": {"method": "none"}}
ONE_K: dict[str, Any] = {
    "speculation": {
        "method": "ngram",
        "numSpeculativeTokens": 3,
        "candidates": [3],
        "tuning": {"mode": "Off"},
    }
}


async def after_a_tick(place: Any) -> None:
    """The tuner writes its part, and the store has it."""
    answer = await place.cluster.apply_status(*KEY, TUNERS, manager="outrider-tuner")
    place.store.models.put(answer)


def changes_to(place: Place, **spec: Any) -> None:
    path = MODELS.path(*KEY)
    version = place.cluster.version_number = place.cluster.version_number + 1
    changed = a_raw_model(version=version, generation=2, status=place.cluster.objects[path]["status"], **spec)
    place.cluster.objects[path] = changed
    place.store.models.put(changed)


def tuners_part(place: Any) -> set[str]:
    """As the store has it: the metrics and `outrider status` are of that."""
    status = place.store.models.get(KEY).status
    found = {condition.type for condition in status.conditions} & {"ActuationConverged"}
    return found if status.speculation is None else {"speculation", *found}


@pytest.mark.parametrize("spec", [NO_DRAFTER, ONE_K], ids=["no drafter", "one candidate"])
async def test_a_model_that_is_not_tuned_any_more_has_no_statement_of_the_tuner(spec: dict[str, Any]) -> None:
    place = Place()
    await place.passes()
    await after_a_tick(place)
    await place.passes()
    assert tuners_part(place) == {"speculation", "ActuationConverged"}

    changes_to(place, **spec)
    await place.passes()

    assert tuners_part(place) == set()
    assert "Ready" in place.conditions


async def test_a_tick_that_was_under_way_is_removed_by_the_next_reconcile() -> None:
    place = Place()
    await place.passes()
    await after_a_tick(place)
    changes_to(place, **NO_DRAFTER)
    assert await place.reconciler.reconcile(KEY) == 30

    await after_a_tick(place)
    await place.passes()

    assert tuners_part(place) == set()


async def test_nothing_is_written_where_nothing_is_left() -> None:
    place = Place(a_raw_model(**NO_DRAFTER))
    await place.passes(3)

    assert place.cluster.status_writes == 1


async def test_a_target_whose_pods_are_gone_has_no_statement_of_the_tuner(tmp_path: Path) -> None:
    place = TargetPlace(tmp_path)
    place.has_pod()
    await place.passes()
    await after_a_tick(place)
    await place.passes()
    assert tuners_part(place) == {"speculation", "ActuationConverged"}

    place.loses_pod()
    await place.passes()

    assert tuners_part(place) == set()


async def test_a_target_that_does_not_answer_keeps_what_the_tuner_saw(tmp_path: Path) -> None:
    place = TargetPlace(tmp_path)
    engine = place.has_pod()
    await place.passes()
    await after_a_tick(place)

    engine.silent = True
    await place.passes()

    assert tuners_part(place) == {"speculation", "ActuationConverged"}
