"""What the API server makes of random models (a sample of `admission_fuzz`) and of a NetworkPolicy."""

from __future__ import annotations

import pytest

from outrider.plan import PlanSettings
from outrider.plan.network_peers import ControlPeers
from tests.cluster.admission_fuzz import fuzz
from tests.cluster.kubectl import apply
from tests.unit.plan.factories import a_model, a_plan

pytestmark = pytest.mark.engine("none", "dry runs")

OBJECTS = 200


def test_what_is_admitted_is_planned_and_what_is_refused_names_a_field() -> None:
    tally = fuzz(OBJECTS)
    print(tally)
    assert not tally.broken, str(tally)
    assert tally.admitted["planned"] > OBJECTS / 20
    assert tally.refused > OBJECTS / 20


def test_the_policy_of_a_model_is_admitted() -> None:
    peers = ControlPeers("outrider-system", {"app.kubernetes.io/name": "outrider"})
    policy = a_plan(a_model(), settings=PlanSettings(control_peers=peers)).child("NetworkPolicy")
    assert policy is not None
    alone = {"name": "qwen", "namespace": "default"}
    assert "created" in apply({**policy, "metadata": alone}, "--dry-run=server", "--validate=strict")
