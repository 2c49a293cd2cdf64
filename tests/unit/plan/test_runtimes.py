"""A runtime is one folder and one entry in the registry: here a scratch one is added and planned with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import cast

import pytest

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import RuntimeKind, Spec
from outrider.api.weights import WeightsStatus
from outrider.plan import Plan
from outrider.runtimes import RUNTIMES, missing_model
from outrider.runtimes.engine_launch import EngineLaunch
from outrider.runtimes.runtime import Args, EngineContainer
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.plan.factories import a_model, a_plan, arguments, engine_container, environment, pod_spec


class _More(StrEnum):
    SCRATCH = "Scratch"


SCRATCH = cast(RuntimeKind, _More.SCRATCH)


class Scratch:
    """An engine that has nothing in common with vLLM."""

    owned_variables: Mapping[str, str] = {"SCRATCH_MODE": "leave it out"}
    joined_variables: Mapping[str, frozenset[str]] = {}

    def flag_additions(self, spec: Spec, words: Sequence[str], *, stock: bool) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    def variable_additions(self, names: Sequence[str]) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    def image(self, version: str, images: Mapping[str, str]) -> str | None:  # noqa: ARG002
        return f"scratch:{version}"

    def unsupported_reason(self, spec: Spec, weights: WeightsStatus | None) -> str | None:  # noqa: ARG002
        return None if spec.parallelism.pipeline == 1 else "no pipelines; set spec.parallelism.pipeline to 1"

    def settled(self, spec: Spec, weights: WeightsStatus | None) -> Spec:  # noqa: ARG002
        return spec

    def advice(self, spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def container(self, launch: EngineLaunch, *, served_name: str) -> EngineContainer:
        return EngineContainer(
            command=("scratch",),
            arguments=("serve", served_name, str(launch.spec.speculation.num_speculative_tokens)),
            environment={"SCRATCH_MODE": "draft"},
            pod_uid_variable=None,
            control_port_variable=None,
            health_path="/alive",
            readiness_path="/ready",
            pre_stop={"sleep": {"seconds": 1}},
            seconds_to_end=7,
        )

    def max_num_seqs(self, args: Args) -> int | None:  # noqa: ARG002
        return None

    def largest_batch(self, args: Args) -> int:  # noqa: ARG002
        return 8

    def default_max_num_seqs(self, gpu: str, memory_bytes: float) -> int:  # noqa: ARG002
        return 8

    def max_num_batched_tokens(self, args: Args) -> int | None:  # noqa: ARG002
        return None

    def gpu_memory_share(self, args: Args) -> float:  # noqa: ARG002
        return 0.5

    def missing_model(self, log: str) -> str | None:
        return log.removeprefix("nothing at ") if log.startswith("nothing at /") else None


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, SCRATCH, Scratch())


def a_scratch_model(**spec: object) -> SpeculativeModel:
    """As admission gives it, once the enum has the value."""
    model = a_model(**spec)  # type: ignore[arg-type]
    engine = model.spec.engine.model_copy(update={"runtime": SCRATCH})
    return model.model_copy(update={"spec": model.spec.model_copy(update={"engine": engine})})


def planned(**spec: object) -> Plan:
    return a_plan(a_scratch_model(**spec))


@pytest.mark.parametrize("kind", RuntimeKind)
def test_every_runtime_of_the_api_is_registered(kind: RuntimeKind) -> None:
    assert kind in RUNTIMES, "add it to RUNTIMES in operator/outrider/runtimes/__init__.py"


def test_a_model_is_planned_with_the_runtime_that_it_names() -> None:
    result = planned()
    container = engine_container(result)
    assert (container["image"], container["command"]) == (f"scratch:{DEFAULT_RELEASE}", ["scratch"])
    assert arguments(result) == ["serve", "qwen", "5"]
    assert environment(result)["SCRATCH_MODE"] == "draft"
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}
    assert pod_spec(result)["terminationGracePeriodSeconds"] == 7


def test_probes_ask_where_the_runtime_answers() -> None:
    container = engine_container(planned())
    paths = [
        container[probe]["httpGet"]["path"]  # type: ignore[index]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    ]
    assert paths == ["/alive", "/alive", "/ready"]


def test_nothing_of_vllm_is_in_the_pod_of_another_runtime() -> None:
    text = str(engine_container(planned())).lower()
    assert "vllm" not in text
    assert "outrider_" not in text


def test_a_runtime_refuses_what_it_cannot_do() -> None:
    reason = "no pipelines; set spec.parallelism.pipeline to 1"
    assert planned(method="mtp", parallelism={"pipeline": 2}).problems == (
        (DegradedReason.UNSUPPORTED, reason),
    )


def test_an_overlay_cannot_take_a_runtime_its_variables() -> None:
    mine = {"name": "engine", "env": [{"name": "SCRATCH_MODE", "value": "mine"}]}
    ((reason, message),) = planned(podTemplate={"spec": {"containers": [mine]}}).problems
    assert reason is DegradedReason.INVALID_SPEC
    assert "env[SCRATCH_MODE]" in message


def test_a_log_is_read_in_the_words_of_every_runtime() -> None:
    assert missing_model("nothing at /models/x") == "/models/x"
    assert missing_model("Invalid repository ID or local directory specified: '/models/y'.") == "/models/y"


@pytest.mark.parametrize(("told", "share"), [({}, 0.92), ({"gpu-memory-utilization": 0.5}, 0.5)])
def test_vllm_takes_its_own_share_of_memory_or_what_it_is_told(told: dict[str, float], share: float) -> None:
    assert RUNTIMES[RuntimeKind.VLLM].gpu_memory_share(told) == share


@pytest.mark.parametrize("given", [0, 1.5, -0.1, "nan", "most"])
def test_a_share_of_memory_that_is_none_is_refused_by_its_field(given: float | str) -> None:
    with pytest.raises(ValueError, match=r"spec\.engine\.args\.gpu-memory-utilization must be a number"):
        RUNTIMES[RuntimeKind.VLLM].gpu_memory_share({"gpu-memory-utilization": given})
