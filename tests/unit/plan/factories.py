"""Small specs and plans with keyword overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.api.resource import SpeculativeModel
from outrider.api.status import Status
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.plan import ControlKeys, Plan, PlanSettings, plan
from outrider.plan.weights.needs import needs_of

Json = dict[str, object]

KEYS = ControlKeys(private="a-private-key", public="a-public-key")

CPU: Mapping[str, object] = {"limits": {"memory": "2Gi"}}


def a_model(
    *,
    name: str = "qwen",
    uri: str = "hf://Qwen/Qwen3-8B",
    method: str = "ngram",
    speculation: Mapping[str, object] | None = None,
    **spec: object,
) -> SpeculativeModel:
    """A model with n-gram speculation; `speculation` and `spec` add or replace fields."""
    tokens = {} if method == "none" else {"numSpeculativeTokens": 5}
    return SpeculativeModel.model_validate(
        {
            "metadata": {"name": name, "namespace": "llm", "uid": "u-1"},
            "spec": {
                "model": {"uri": uri},
                "speculation": {"method": method, **tokens, **(speculation or {})},
                **spec,
            },
        }
    )


def a_plan(
    model: SpeculativeModel, *, settings: PlanSettings | None = None, keys: ControlKeys = KEYS
) -> Plan:
    return plan(model, settings=settings or PlanSettings(), keys=keys)


def pod_spec(result: Plan) -> Json:
    deployment = result.child("Deployment")
    assert deployment is not None, result.problems
    return deployment["spec"]["template"]["spec"]  # type: ignore[index,no-any-return]


def engine_container(result: Plan) -> Json:
    return pod_spec(result)["containers"][0]  # type: ignore[index,no-any-return]


def arguments(result: Plan) -> list[str]:
    return engine_container(result)["args"]  # type: ignore[return-value]


def flag(result: Plan, name: str) -> str | None:
    """The value of a flag; None when the flag is absent."""
    found = (word.partition("=") for word in arguments(result))
    return next((value for flag, _, value in found if flag == name), None)


def environment(result: Plan) -> dict[str, str]:
    variables: list[Mapping[str, str]] = engine_container(result)["env"]  # type: ignore[assignment]
    return {variable["name"]: variable.get("value", "") for variable in variables}


COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
CACHE = {"size": "200Gi"}


def an_artifact(name: str, **sizes: Any) -> ArtifactStatus:
    path = f"hub/models--org--{name}/snapshots/{COMMIT}"
    return ArtifactStatus(uri=f"hf://org/{name}", revision=COMMIT, path=path, size="1.0 GB", **sizes)


def with_weights(
    model: SpeculativeModel, target: Mapping[str, Any] = {}, drafter: Mapping[str, Any] = {}
) -> SpeculativeModel:
    """As it is once all has been downloaded. target, drafter: what their config.json say."""
    needs = needs_of(model)
    assert needs is not None
    there = WeightsStatus(
        wanted=needs.digest, model=an_artifact("target", **target), drafter=an_artifact("drafter", **drafter)
    )
    return model.model_copy(update={"status": Status(weights=there)})
