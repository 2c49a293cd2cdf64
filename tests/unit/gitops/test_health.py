"""Health of a model in Argo CD (Lua) and Flux (CEL), by the expressions of `examples/gitops`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import celpy
import lupa  # type: ignore[import-untyped]
import pytest
import yaml
from celpy.adapter import json_to_cel
from celpy.celtypes import MapType

from outrider.api.conditions import ConditionStatus, ConditionType, ConditionUpdate
from outrider.api.reasons import DegradedReason
from outrider.controller.reconcile.readiness import DegradedCause, Workload, blocked, downloading, judge
from tests.unit.controller.factories import NOW, a_pod, a_workload

GITOPS = Path("examples/gitops")
KEY = "resource.customizations.health.outrider.dev_SpeculativeModel"
CAUSE = DegradedCause(DegradedReason.UNSUPPORTED, "this release has no such method")
WAITS = ("Progressing", {"inProgress"})
FAILS = ("Degraded", {"failed"})
SERVES = ("Healthy", {"current"})
AT_ZERO = ("Suspended", {"current"})


def a_model(
    said: Iterable[ConditionUpdate], *, generation: int = 3, observed: int | None = 3
) -> dict[str, Any]:
    conditions = [
        {
            "type": str(each.type),
            "status": str(each.status),
            "reason": str(each.reason),
            "message": each.message,
        }
        for each in said
    ]
    seen = {} if observed is None else {"observedGeneration": observed}
    return {"metadata": {"generation": generation}, "status": {**seen, "conditions": conditions}}


def in_argo(model: dict[str, Any]) -> tuple[str, str]:
    """Status and message by the Lua of the ConfigMap."""
    script = yaml.safe_load((GITOPS / "argocd-cm.yaml").read_text())["data"][KEY]
    runtime = lupa.LuaRuntime(unpack_returned_tuples=True)
    runtime.globals().obj = runtime.table_from(model, recursive=True)
    found = runtime.execute(script)
    return str(found.status), str(found.message)


def in_flux(model: dict[str, Any]) -> set[str]:
    """The expressions of the Kustomization that hold."""
    (check,) = yaml.safe_load((GITOPS / "flux-kustomization.yaml").read_text())["spec"]["healthCheckExprs"]
    assert (check["apiVersion"], check["kind"]) == ("outrider.dev/v1alpha1", "SpeculativeModel")
    environment = celpy.Environment()
    values = json_to_cel(model)
    assert isinstance(values, MapType)
    return {
        name
        for name in ("inProgress", "failed", "current")
        if environment.program(environment.compile(check[name])).evaluate(values)  # type: ignore[arg-type]
    }


def health(model: dict[str, Any]) -> tuple[str, set[str]]:
    return in_argo(model)[0], in_flux(model)


WORKLOAD = a_workload(a_pod(ready=True))
SERVING = judge(WORKLOAD, NOW)
STARTING = judge(a_workload(a_pod()), NOW)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (SERVING, SERVES),
        (STARTING, WAITS),
        (judge(a_workload(a_pod(), stuck=True), NOW), FAILS),
        (judge(WORKLOAD, NOW, besides=CAUSE), FAILS),
        (blocked(CAUSE), FAILS),
        (downloading(WORKLOAD, "40 %", None), WAITS),
        (judge(Workload(0, (), (), (), ()), NOW), AT_ZERO),
        (judge(replace(WORKLOAD, known=("a defect",)), NOW), SERVES),
    ],
    ids=["serves", "starts", "deadline", "degraded", "blocked", "downloads", "zero replicas", "known issue"],
)
def test_the_health_of_what_the_reconciler_reports(
    said: tuple[ConditionUpdate, ...], expected: tuple[str, set[str]]
) -> None:
    assert health(a_model(said)) == expected


@pytest.mark.parametrize("observed", [None, 2])
def test_an_older_status_says_nothing_of_the_present_spec(observed: int | None) -> None:
    assert health(a_model(SERVING, observed=observed)) == WAITS


def test_a_new_object_without_a_status_waits() -> None:
    assert health({"metadata": {"generation": 1}, "status": {}}) == WAITS


def test_what_waits_with_a_cause_shows_it() -> None:
    starting = judge(a_workload(a_pod()), NOW, besides=CAUSE)
    status, message = in_argo(a_model(starting))
    assert (status, "this release has no such method" in message) == ("Progressing", True)


STATES = [ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN, None]


@pytest.mark.parametrize(("ready", "progressing", "degraded"), list(product(STATES, STATES, STATES)))
def test_flux_gets_exactly_one_answer_whatever_the_conditions_are(
    ready: ConditionStatus | None, progressing: ConditionStatus | None, degraded: ConditionStatus | None
) -> None:
    kinds = (ConditionType.READY, ConditionType.PROGRESSING, ConditionType.DEGRADED)
    conditions = [
        {"type": str(kind), "status": str(status), "reason": "Some", "message": "text"}
        for kind, status in zip(kinds, (ready, progressing, degraded), strict=True)
        if status is not None
    ]
    model = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": conditions}}
    (answer,) = in_flux(model)
    assert {"inProgress": "Progressing", "failed": "Degraded", "current": "Healthy"}[answer] == in_argo(
        model
    )[0]


@pytest.mark.parametrize("name", ["argocd-cm.yaml", "flux-kustomization.yaml"])
def test_the_page_shows_the_file(name: str) -> None:
    assert f"```yaml\n{(GITOPS / name).read_text()}```" in Path("docs/guide/gitops.md").read_text()
