"""`spec.target`: Outrider finds pods of another owner, tunes some, and reports why it leaves out others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.api.tuning import TuningMode
from outrider.cluster.errors import Unavailable, from_status
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.reconcile import targets
from outrider.controller.reconcile.reconciler import PassTooLong
from outrider.controller.reconcile.target_pods import KEY_PATIENCE, MAX_TARGET_PODS
from outrider.controller.reconcile.targets import LOOK_SECONDS
from outrider.controller.stored import Key
from outrider.plan.names import MODEL_LABEL, NOT_INJECTED_ANNOTATION, schedule_config_map
from outrider.runtimes.engine_launch import SCHEDULE_FILE
from outrider.tuning.latency_targets import LatencyTarget, LatencyTargets
from outrider_protocol.request_limits import LIMITS_FILE
from tests.unit.controller.target_place import APP, TargetPlace

AFTER_THE_KEY = KEY_PATIENCE.total_seconds() + 1


@pytest.fixture
def place(tmp_path: Path) -> TargetPlace:
    """A target that selects the label app=llm."""
    return TargetPlace(tmp_path)


def kinds(place: TargetPlace) -> set[str]:
    return {raw.get("kind", "Pod") for raw in place.cluster.objects.values()} - {"Pod", "SpeculativeModel"}


async def test_tunes_pods_with_the_plugin(place: TargetPlace) -> None:
    place.has_pod("llm-1")
    place.has_pod("llm-2")
    await place.passes()
    assert place.conditions() == {"Ready": "Serving", "Progressing": "Complete"}
    assert place.tuned_pods() == ["llm-1", "llm-2"]
    assert (place.status()["serving"], place.status()["replicas"]) == ("2/2", 2)


async def test_takes_the_launch_from_the_engines(place: TargetPlace) -> None:
    place.has_pod()
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert (found.policy.candidates, found.max_num_seqs) == ((0, 1, 3, 5), 64)
    assert str(found.static) == "*:3"
    assert found.mode is TuningMode.AUTO
    assert found.can.live_schedule
    assert found.relaunching.silent


async def test_reaches_an_engine_at_the_port_of_the_target(tmp_path: Path) -> None:
    place = TargetPlace(tmp_path, selector={"matchLabels": APP}, port=8080)
    place.has_pod()
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert [pod.address.url for pod in found.pods] == ["http://10.0.0.1:8080"]


async def test_creates_only_keys(place: TargetPlace) -> None:
    place.has_pod()
    await place.passes()
    assert kinds(place) == {"Secret", "ConfigMap"}


async def test_the_static_schedule_outlives_its_pods_and_the_operator(place: TargetPlace) -> None:
    place.has_pod()
    await place.passes()
    place.loses_pod()
    await place.passes()
    data = place.cluster.objects[CONFIG_MAPS.path("default", schedule_config_map("m"))]["data"]
    assert json.loads(data[SCHEDULE_FILE]) == [{"numSpeculativeTokens": 3}]
    place.has_pod(state={"source": "Pushed", "schedule": [{"numSpeculativeTokens": 1}]})
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert str(found.static) == "*:3"


async def test_request_limits_reach_the_pods_with_the_keys(tmp_path: Path) -> None:
    limits = [{"name": "json", "maxK": 1, "when": {"structuredOutput": True}}]
    place = TargetPlace(tmp_path, selector={"matchLabels": APP}, requestLimits=limits)
    place.has_pod()
    await place.passes()
    data = place.cluster.objects[CONFIG_MAPS.path("default", schedule_config_map("m"))]["data"]
    assert json.loads(data[LIMITS_FILE]) == limits


async def test_a_static_schedule_that_was_never_seen_is_the_default(place: TargetPlace) -> None:
    place.has_pod(state={"source": "Pushed", "schedule": [{"numSpeculativeTokens": 1}]})
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert str(found.static) == "8:3,32:1,*:0"


async def test_looks_for_new_pods_every_few_seconds(place: TargetPlace) -> None:
    assert await place.reconciler.reconcile(Key("default", "m")) == LOOK_SECONDS
    place.has_pod()
    await place.passes()
    assert place.tuned_pods() == ["llm-1"]


async def test_asks_an_engine_once(place: TargetPlace) -> None:
    engine = place.has_pod()
    await place.passes(2)
    asked = engine.asked
    await place.passes(3)
    assert engine.asked == asked


async def test_mode_observe_reaches_the_tuner(tmp_path: Path) -> None:
    place = TargetPlace(tmp_path, selector={"matchLabels": APP}, tuning={"mode": "Observe"})
    place.has_pod()
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert found.mode is TuningMode.OBSERVE


async def test_latency_targets_reach_the_tuner(tmp_path: Path) -> None:
    slo = {"interTokenLatency": {"percentile": 95, "limit": "50ms"}, "timeToFirstToken": {"limit": "2s"}}
    place = TargetPlace(tmp_path, selector={"matchLabels": APP}, tuning={"slo": slo})
    place.has_pod()
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert found.targets == LatencyTargets(LatencyTarget(95, 0.05), LatencyTarget(90, 2.0))
    assert found.policy.safety.inter_token_latency_limit == 0.05


async def test_pods_that_end_are_not_tuned(place: TargetPlace) -> None:
    place.has_pod("llm-1")
    place.has_pod("llm-2", leaving=True)
    await place.passes()
    assert place.tuned_pods() == ["llm-1"]
    assert place.status()["replicas"] == 1


async def test_a_starting_pod_gets_the_schedule_before_it_is_ready(place: TargetPlace) -> None:
    place.has_pod("llm-1")
    place.has_pod("llm-2", ready=False)
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert [pod.name for pod in found.starting_pods] == ["llm-2"]
    assert place.conditions() == {"Ready": "PartiallyServing", "Progressing": "RollingOut"}


async def test_no_pod_with_these_labels(place: TargetPlace) -> None:
    place.has_pod(labels={"app": "other"})
    await place.passes()
    assert place.conditions()["Degraded"] == "NoPodMatches"
    assert "app=llm" in place.trouble()
    assert place.tuned() is None


async def test_a_pod_without_the_plugin_leaves_the_others_tuned(place: TargetPlace) -> None:
    place.has_pod("llm-1")
    place.has_pod("llm-2", plugin=False, names=None)
    await place.passes()
    assert place.conditions()["Degraded"] == "PluginMissing"
    assert "pod llm-2" in place.trouble()
    assert "docs/guide/running-pods.md" in place.trouble()
    assert place.tuned_pods() == ["llm-1"]


async def test_why_the_injection_policy_left_a_pod_out_is_repeated(place: TargetPlace) -> None:
    place.has_pod("llm-1", plugin=False, names=None, annotations={NOT_INJECTED_ANNOTATION: "no tag\n" * 99})
    await place.passes()
    assert place.conditions()["Degraded"] == "PluginMissing"
    assert "The injection policy left it out: no tag" in place.trouble()
    assert "\n" not in place.trouble()
    assert len(place.trouble()) < 1000


async def test_a_key_on_its_way_is_no_trouble(place: TargetPlace) -> None:
    place.has_pod(key_of="other")
    await place.passes()
    assert place.conditions() == {"Ready": "Serving", "Progressing": "WaitingForKey"}


async def test_a_key_that_does_not_match(place: TargetPlace) -> None:
    place.has_pod(key_of="other", names="other")
    await place.passes()
    place.waits(AFTER_THE_KEY)
    await place.passes()
    assert place.conditions()["Degraded"] == "KeyMismatch"
    assert "names SpeculativeModel other" in place.trouble()
    assert "mount the ConfigMap m-schedule" in place.trouble()


async def test_an_engine_at_another_port(place: TargetPlace) -> None:
    place.has_pod(silent=True)
    await place.passes()
    assert place.conditions()["Degraded"] == "TargetUnreachable"
    assert "port 8000" in place.trouble()
    assert place.conditions()["Ready"] == "Serving"


async def test_pods_that_hang_end_no_reconcile_and_leave_the_others_tuned(
    place: TargetPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "ASK_SECONDS", 0.1)
    for index in range(2 * targets._ASKED_AT_ONCE - 1):
        place.has_pod(f"llm-{index:02}", hangs=True)
    place.has_pod("llm-99")
    await place.passes(2)

    assert place.tuned_pods() == ["llm-99"]
    assert place.conditions()["Degraded"] == "TargetUnreachable"
    assert f"pods llm-00, llm-01, llm-02 and {2 * targets._ASKED_AT_ONCE - 4} more" in place.trouble()


async def test_pods_that_were_not_asked_come_first_in_the_next_reconcile(
    place: TargetPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(targets, "_ASKED_AT_ONCE", 1)
    engines = [place.has_pod(f"llm-{index}", hangs=True) for index in range(3)]
    asked: list[list[int]] = []
    for _ in range(4):
        await place.passes(1)
        asked.append([engine.asked for engine in engines])

    assert asked == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]]


async def test_an_answer_outlives_a_reconcile_that_was_stopped(place: TargetPlace) -> None:
    await place.passes(1)
    answering, hanging = place.has_pod("llm-1"), place.has_pod("llm-2", hangs=True)
    place.reconciler._pass_seconds = 0.2
    with pytest.raises(PassTooLong):
        await place.reconciler.reconcile(Key("default", "m"))
    assert (answering.asked, hanging.asked) == (1, 1)

    hanging.hangs = False
    place.reconciler._pass_seconds = 60.0
    await place.passes(1)
    assert (answering.asked, hanging.asked) == (1, 2)
    assert place.tuned_pods() == ["llm-1", "llm-2"]


@pytest.mark.parametrize(
    "other",
    [{"capturedK": [0, 1, 2]}, {"method": "mtp"}, {"engineVersion": "0.24.0"}, {"runner": "V2"}],
    ids=lambda other: next(iter(other)),
)
async def test_pods_of_another_launch_are_left_out(place: TargetPlace, other: dict[str, Any]) -> None:
    for name in ("llm-1", "llm-2"):
        place.has_pod(name)
    place.has_pod("llm-3", state=other)
    await place.passes()
    assert place.conditions()["Degraded"] == "LaunchesDiffer"
    assert "pod llm-3" in place.trouble()
    assert place.tuned_pods() == ["llm-1", "llm-2"]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"liveTuning": {"possible": False, "reason": "data parallel"}}, "data parallel"),
        ({"capturedK": [3]}, "launched with one K"),
        ({"method": "of-tomorrow"}, "of-tomorrow"),
        ({"method": None}, "method"),
    ],
)
async def test_an_engine_that_cannot_change_k(place: TargetPlace, state: dict[str, Any], why: str) -> None:
    place.has_pod(state=state)
    await place.passes()
    assert place.conditions()["Degraded"] == "NotTuned"
    assert why in place.trouble()
    assert place.tuned() is None


async def test_many_values_of_k_are_reduced_to_the_default_ones(place: TargetPlace) -> None:
    place.has_pod(state={"capturedK": list(range(17))})
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert found.policy.candidates == (0, 1, 2, 8, 16)


async def test_a_plugin_of_another_version_is_tuned_and_reported(place: TargetPlace) -> None:
    place.has_pod(state={"pluginVersion": "0.0.9"})
    await place.passes()
    assert place.conditions()["KnownIssues"] == "PluginDiffers"
    assert "Degraded" not in place.conditions()
    assert place.tuned_pods() == ["llm-1"]


async def test_the_older_one_keeps_a_pod_that_names_none(place: TargetPlace) -> None:
    place.has_target("young", selector={"matchLabels": APP}, age=10)
    place.has_pod(names=None)
    await place.passes(of="young")
    await place.passes(of="m")
    await place.passes(of="young")
    assert place.conditions("young")["Degraded"] == "SelectedTwice"
    assert "SpeculativeModel m tunes them" in place.trouble("young")
    assert place.tuned_pods("young") == []
    assert "Degraded" not in place.conditions("m")
    assert place.tuned_pods("m") == ["llm-1"]


async def test_the_one_that_a_pod_names_keeps_it(place: TargetPlace) -> None:
    place.has_target("young", selector={"matchLabels": APP}, age=10)
    place.has_pod(names="young", key_of="young")
    for name in ("young", "m", "young", "m"):
        await place.passes(of=name)
    assert place.conditions("m")["Degraded"] == "SelectedTwice"
    assert place.tuned_pods("m") == []
    assert place.tuned_pods("young") == ["llm-1"]


async def test_pods_that_outrider_runs_are_not_taken(place: TargetPlace) -> None:
    labels = {**APP, MODEL_LABEL: "own", "app.kubernetes.io/managed-by": "outrider"}
    place.has_pod(labels=labels, names=None)
    await place.passes()
    assert place.conditions()["Degraded"] == "SelectedTwice"
    assert "SpeculativeModel own tunes them" in place.trouble()


async def test_a_deleted_target_gives_its_pods_free(place: TargetPlace) -> None:
    place.has_target("young", selector={"matchLabels": APP}, age=10)
    place.has_pod(names=None)
    await place.passes(of="m")
    stored = place.store.models.get(Key("default", "m"))
    assert stored is not None
    place.store.models.drop(stored.metadata)
    await place.reconciler.reconcile(Key("default", "m"))
    assert place.tuned("m") is None
    assert Key("default", "m") not in place.store.targets


async def test_pods_beyond_the_limit_are_reported(place: TargetPlace) -> None:
    for index in range(MAX_TARGET_PODS + 2):
        place.has_pod(f"llm-{index:04}", ready=False)
    await place.passes()
    assert place.status()["replicas"] == MAX_TARGET_PODS
    assert place.conditions()["Degraded"] == "NotTuned"
    assert "2 more pods" in place.trouble()


WORKLOADS = [
    ("apps/v1", "Deployment", {"selector": {"matchLabels": {"app": "llm"}}}, APP, 8000),
    (
        "apps/v1",
        "StatefulSet",
        {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["llm", "x"]}]}},
        APP,
        8000,
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {},
        {"leaderworkerset.sigs.k8s.io/name": "w", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
        8000,
    ),
    (
        "serving.kserve.io/v1beta1",
        "InferenceService",
        {},
        {"serving.kserve.io/inferenceservice": "w", "component": "predictor"},
        8080,
    ),
    (
        "serving.kserve.io/v1alpha2",
        "LLMInferenceService",
        {},
        {
            "app.kubernetes.io/name": "w",
            "app.kubernetes.io/part-of": "llminferenceservice",
            "kserve.io/component": "workload",
            "llm-d.ai/role": "both",
        },
        8000,
    ),
    (
        "inference.networking.k8s.io/v1",
        "InferencePool",
        {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8200}]},
        APP,
        8200,
    ),
]


@pytest.mark.parametrize(
    ("version", "kind", "spec", "labels", "port"), WORKLOADS, ids=[kind for _, kind, *_ in WORKLOADS]
)
async def test_finds_the_pods_of_a_workload(
    tmp_path: Path, version: str, kind: str, spec: dict[str, Any], labels: dict[str, str], port: int
) -> None:
    place = TargetPlace(tmp_path, workload={"apiVersion": version, "kind": kind, "name": "w"})
    place.cluster.objects[f"/apis/{version}/namespaces/default/{kind.lower()}s/w"] = {
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default", "labels": {}},
        "spec": spec,
    }
    place.has_pod(labels=labels)
    place.has_pod(
        "prefill", labels={**labels, "app": "no", "component": "transformer", "llm-d.ai/role": "prefill"}
    )
    if kind == "LeaderWorkerSet":
        place.loses_pod("prefill")
        place.has_pod("worker", labels={**labels, "leaderworkerset.sigs.k8s.io/worker-index": "1"})
    await place.passes()
    found = place.tuned()
    assert found is not None
    assert [pod.address.url for pod in found.pods] == [f"http://10.0.0.1:{port}"]


def a_workload_place(folder: Path) -> TargetPlace:
    return TargetPlace(folder, workload={"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"})


async def test_a_workload_that_does_not_exist(tmp_path: Path) -> None:
    place = a_workload_place(tmp_path)
    await place.passes()
    assert place.conditions()["Degraded"] == "TargetNotFound"
    assert "no Deployment w of apps/v1" in place.trouble()


async def test_a_workload_that_the_operator_may_not_read(tmp_path: Path) -> None:
    place = a_workload_place(tmp_path)
    place.cluster.refuses = from_status(403, "cannot get resource", retry_after=None)
    await place.passes()
    assert place.conditions()["Degraded"] == "TargetNotReadable"
    assert "the right to get deployments.apps" in place.trouble()


async def test_a_workload_without_a_selector(tmp_path: Path) -> None:
    place = a_workload_place(tmp_path)
    place.cluster.objects["/apis/apps/v1/namespaces/default/deployments/w"] = {
        "kind": "Deployment",
        "metadata": {"name": "w", "namespace": "default", "labels": {}},
    }
    await place.passes()
    assert place.conditions()["Degraded"] == "TargetNotReadable"


async def test_keys_exist_before_the_workload_does(tmp_path: Path) -> None:
    place = a_workload_place(tmp_path)
    await place.passes()
    assert kinds(place) == {"Secret", "ConfigMap"}


async def test_a_failing_api_server_is_reported_without_a_plan_of_pods(place: TargetPlace) -> None:
    error = Unavailable("etcd is away")
    place.cluster.fails = error
    for _ in range(3):
        with pytest.raises(Unavailable):
            await place.reconciler.reconcile(Key("default", "m"))
    assert place.conditions()["Degraded"] == "ReconcileFailed"


async def test_a_selector_with_a_wrong_key_is_refused_by_name(place: TargetPlace) -> None:
    place.has_target("wrong", selector={"matchLabels": {"a b": "c"}})
    await place.passes(of="wrong")
    assert place.conditions("wrong")["Degraded"] == "InvalidSpec"
    assert "matchLabels" in place.trouble("wrong")
