"""A runtime is one folder and one value of `RuntimeKind`: here a scratch one is added and planned with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outrider.api.engines import RuntimeKind
from outrider.api.reasons import DegradedReason
from outrider.plan import Plan
from outrider.runtimes import RUNTIMES, missing_model, remedy
from outrider.runtimes.control import NO_CONTROL
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.plan.factories import a_model, a_plan, arguments, engine_container, environment, pod_spec
from tests.unit.runtimes.scratch import a_scratch_model, registered


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


def planned(**spec: object) -> Plan:
    return a_plan(a_scratch_model(**spec))


@pytest.mark.parametrize("kind", RuntimeKind)
def test_every_runtime_of_the_api_is_registered(kind: RuntimeKind) -> None:
    assert kind in RUNTIMES, "add its folder to operator/outrider/runtimes"


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


def test_a_cause_gets_the_remedy_of_the_runtime_that_knows_it() -> None:
    assert remedy("no paper") == "Set spec.engine.args.paper"
    assert "spec.engine.modelRunner: Auto" in str(remedy("Model Runner V2 requires Triton."))
    assert remedy("RuntimeError: a drafter failed") is None


@pytest.mark.parametrize(("told", "share"), [({}, 0.92), ({"gpu-memory-utilization": 0.5}, 0.5)])
def test_vllm_takes_its_own_share_of_memory_or_what_it_is_told(told: dict[str, float], share: float) -> None:
    assert RUNTIMES[RuntimeKind.VLLM].gpu_memory_share(told) == share


@pytest.mark.parametrize("given", [0, 1.5, -0.1, "nan", "most"])
def test_a_share_of_memory_that_is_none_is_refused_by_its_field(given: float | str) -> None:
    with pytest.raises(ValueError, match=r"spec\.engine\.args\.gpu-memory-utilization must be a number"):
        RUNTIMES[RuntimeKind.VLLM].gpu_memory_share({"gpu-memory-utilization": given})


def test_vllm_with_the_plugin_takes_schedules_and_a_stock_one_takes_nothing() -> None:
    vllm = RUNTIMES[RuntimeKind.VLLM]
    live, stock = a_model(), a_model(speculation={"tuning": {"actuation": "Rollout"}})
    assert vllm.control(live.spec).live_schedule
    assert vllm.control(stock.spec) == NO_CONTROL


@pytest.mark.parametrize(("k0", "skipped"), [("Auto", True), ("Sync", False)])
def test_vllm_leaves_out_a_draft_model_at_k_0_unless_the_spec_says_otherwise(k0: str, skipped: bool) -> None:
    wanted = {"drafter": {"uri": "hf://org/drafter"}, "tuning": {"k0": k0}}
    model = a_model(method="draft_model", speculation=wanted)
    assert RUNTIMES[RuntimeKind.VLLM].control(model.spec).skips_idle_drafter is skipped
