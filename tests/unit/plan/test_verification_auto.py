"""`verification: Auto`: how replicas and the canary are launched."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from outrider.api.launch import ANNOTATION, Launch, LaunchOrder
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan, PlanSettings, Role, Serving, plan, revision
from tests.unit.plan.factories import KEYS, a_model, flag

KEY = "enable_adaptive_verification"
ADAPTIVE = Launch(adaptive=True)
TRIAL = LaunchOrder(canary=ADAPTIVE)


def a_model_with_auto(**spec: Any) -> SpeculativeModel:
    speculation = {"drafter": {"uri": "hf://org/drafter"}, "verification": "Auto"}
    engine = {"image": "engine:1", "version": "0.32.0", **spec.pop("engine", {})}
    speculation |= spec.pop("speculation", {})
    return a_model(speculation={"method": "eagle3", **speculation}, engine=engine, **{"replicas": 2, **spec})


def planned(order: LaunchOrder, *, serving: Serving | None = None, **spec: Any) -> Plan:
    model = a_model_with_auto(**spec)
    return plan(model, settings=PlanSettings(), keys=KEYS, order=order, serving=serving or Serving())


def adaptive(result: Plan) -> dict[str, bool]:
    """Whether engines verify adaptively, by Deployment."""
    found = {}
    for child in result.children:
        if child["kind"] == "Deployment":
            text = flag(replace(result, children=(child,)), "--speculative-config")
            metadata = child["metadata"]
            assert isinstance(metadata, dict)
            found[metadata["name"]] = json.loads(text or "{}").get(KEY, False)
    return found


def test_engines_begin_with_fixed_verification() -> None:
    assert list(adaptive(planned(LaunchOrder())).values()) == [False]


def test_a_canary_verifies_the_other_way() -> None:
    assert list(adaptive(planned(TRIAL)).values()) == [False, True]
    back = LaunchOrder(ADAPTIVE, canary=Launch())
    assert list(adaptive(planned(back)).values()) == [True, False]


def test_a_canary_with_the_replicas_own_verification_is_not_launched() -> None:
    assert len(adaptive(planned(LaunchOrder(canary=Launch())))) == 1


def test_a_canary_that_ends_keeps_its_launch_until_its_replica_serves() -> None:
    ending = Serving(replicas=1, canaries=1, canary=ADAPTIVE)
    assert list(adaptive(planned(LaunchOrder(), serving=ending)).values()) == [False, True]


def test_a_pod_names_its_launch_and_belongs_to_the_spec() -> None:
    model = a_model_with_auto()
    result = plan(model, settings=PlanSettings(), keys=KEYS, order=LaunchOrder(ADAPTIVE))
    deployment = result.child("Deployment")
    assert deployment is not None
    metadata: Any = deployment["spec"]["template"]["metadata"]  # type: ignore[index]
    assert metadata["annotations"][ANNOTATION] == "adaptive"
    assert revision(model, ADAPTIVE, Role.REPLICA, settings=PlanSettings()) == result.revision


@pytest.mark.parametrize("verification", ["Fixed", "Adaptive"])
def test_only_auto_follows_such_an_order(verification: str) -> None:
    changes: dict[str, Any] = {"speculation": {"verification": verification}}
    ordered, own = (
        planned(order, **changes) for order in (LaunchOrder(ADAPTIVE, canary=Launch()), LaunchOrder())
    )
    assert ordered.children == own.children


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"engine": {"version": "0.31.0"}}, "spec.engine.version: 0.32.0"),
        ({"engine": {"modelRunner": "V1"}}, "spec.engine.modelRunner: Auto"),
        ({"engine": {"args": {"enforce-eager": True}}}, "spec.engine.args.enforce-eager"),
        ({"speculation": {"method": "dflash"}, "engine": {"version": "0.31.0"}}, "compares tuned launches"),
    ],
    ids=["release", "runner", "flag", "one K"],
)
def test_what_no_engine_could_verify_adaptively_is_refused(changes: dict[str, Any], cause: str) -> None:
    ((reason, message),) = planned(LaunchOrder(), **changes).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert "spec.speculation.verification is Auto" in message or "no adaptive verification" in message
    assert cause in message
    assert message.endswith("spec.speculation.verification: Fixed")
