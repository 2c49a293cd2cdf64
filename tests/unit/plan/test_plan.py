from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.api.quantity import MAX_NAME_LENGTH
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import ControlKeys, Plan, PlanSettings, plan
from outrider.plan.names import REVISION_LABEL
from outrider_engine.control.limit_rules import limits_file
from outrider_engine.http.graceful_shutdown import READINESS
from outrider_protocol.environment import POD_UID_VARIABLE, PUBLIC_KEY_FILE_VARIABLE
from outrider_protocol.releases import RELEASES
from outrider_protocol.schedule import Schedule
from tests.unit.plan.factories import (
    CPU,
    KEYS,
    Json,
    a_model,
    a_plan,
    arguments,
    engine_container,
    environment,
    flag,
    pod_spec,
)

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

names = st.from_regex(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)
ceilings = st.integers(1, 32)
modes = st.sampled_from(["Off", "Observe", "Auto"])


@st.composite
def speculations(draw: st.DrawFn, ceiling: int) -> dict[str, object]:
    """Everything about speculation that may change without a restart."""
    lengths = sorted({0, 1, 2, (ceiling + 1) // 2, ceiling})
    choices = st.sampled_from([k for k in lengths if k <= ceiling])
    edges = draw(st.lists(st.integers(1, 256), max_size=4, unique=True).map(sorted))
    rows = [{"maxBatchSize": edge, "numSpeculativeTokens": draw(choices)} for edge in edges]
    schedule = [*rows, {"numSpeculativeTokens": draw(choices)}]
    return {"numSpeculativeTokens": ceiling, "schedule": schedule, "tuning": {"mode": draw(modes)}}


def problems(result: Plan) -> list[DegradedReason]:
    return [reason for reason, _ in result.problems]


@settings(max_examples=50)
@given(name=names, ceiling=ceilings)
def test_equal_specs_give_equal_plans(name: str, ceiling: int) -> None:
    def once() -> Plan:
        return a_plan(a_model(name=name, speculation={"numSpeculativeTokens": ceiling}))

    assert yaml.safe_dump(list(once().children)) == yaml.safe_dump(list(once().children))


@settings(max_examples=50)
@given(name=names)
def test_names_and_labels_of_all_children_are_valid(name: str) -> None:
    for child in a_plan(a_model(name=name)).children:
        metadata = child["metadata"]
        assert isinstance(metadata, dict)
        assert DNS_LABEL.fullmatch(metadata["name"])
        assert all(LABEL_VALUE.fullmatch(value) for value in metadata["labels"].values())


@settings(max_examples=50)
@given(data=st.data(), ceiling=ceilings)
def test_table_and_tuning_never_change_the_pod(data: st.DataObject, ceiling: int) -> None:
    first, second = (a_model(speculation=data.draw(speculations(ceiling))) for _ in range(2))
    assert a_plan(first).revision == a_plan(second).revision
    assert a_plan(first).child("Deployment") == a_plan(second).child("Deployment")


@settings(max_examples=50)
@given(candidates=st.lists(st.integers(0, 32), min_size=2, max_size=8, unique=True).map(sorted))
def test_every_candidate_is_in_the_launch_table(candidates: list[int]) -> None:
    speculation = {
        "numSpeculativeTokens": candidates[-1],
        "candidates": candidates,
        "tuning": {"mode": "Off"},
    }
    speculation["drafter"] = {"uri": "hf://org/drafter"}
    text = flag(a_plan(a_model(method="eagle3", speculation=speculation)), "--speculative-config")
    assert text is not None
    table = json.loads(text)["num_speculative_tokens_per_batch_size"]
    assert {k for _, _, k in table} == set(candidates)


@settings(max_examples=50)
@given(ceiling=ceilings, data=st.data())
def test_the_static_table_is_delivered_as_it_is_written(ceiling: int, data: st.DataObject) -> None:
    model = a_model(speculation=data.draw(speculations(ceiling)))
    config_map = a_plan(model).child("ConfigMap")
    assert config_map is not None
    text = config_map["data"]["schedule.json"]  # type: ignore[index]
    assert Schedule.from_wire(json.loads(text)) == model.spec.static_schedule()


@pytest.mark.parametrize(
    "change",
    [
        {"speculation": {"numSpeculativeTokens": 4}},
        {"speculation": {"candidates": [0, 5]}},
        {"uri": "hf://Qwen/Qwen3-14B"},
        {"engine": {"version": "0.32.0"}},
        {"engine": {"args": {"max-num-seqs": 64}}},
        {"parallelism": {"tensor": 2}},
        {"resources": CPU},
        {"podTemplate": {"spec": {"priorityClassName": "high"}}},
    ],
    ids=str,
)
def test_what_an_engine_is_launched_with_changes_the_revision(change: dict[str, object]) -> None:
    assert a_plan(a_model(**change)).revision != a_plan(a_model()).revision  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"replicas": 3}, {"rollout": {"progressDeadline": "5m"}}, {"rollout": {"maxUnavailable": 1}}],
    ids=str,
)
def test_what_only_the_rollout_needs_does_not_change_the_revision(change: dict[str, object]) -> None:
    assert a_plan(a_model(**change)).revision == a_plan(a_model()).revision  # type: ignore[arg-type]


def test_the_keys_do_not_change_the_revision() -> None:
    other = ControlKeys(private="another", public="another")
    assert a_plan(a_model(), keys=other).revision == a_plan(a_model()).revision


def test_the_private_key_is_in_the_secret_alone() -> None:
    result = a_plan(a_model(), keys=ControlKeys(private="top-secret", public="for-all"))
    assert holders(result, "top-secret") == ["Secret"]
    assert holders(result, "for-all") == ["ConfigMap"]


def holders(result: Plan, text: str) -> list[object]:
    encoded = base64.b64encode(text.encode()).decode()
    pages = ((child["kind"], yaml.safe_dump(child)) for child in result.children)
    return [kind for kind, page in pages if text in page or encoded in page]


def test_no_pod_mounts_the_secret_with_the_private_key() -> None:
    result = a_plan(a_model())
    secret, deployment = result.child("Secret"), result.child("Deployment")
    assert secret is not None
    assert deployment is not None
    name = secret["metadata"]["name"]  # type: ignore[index]
    assert name not in yaml.safe_dump(deployment)


def test_the_private_key_is_stored_before_engines_learn_of_the_public_one() -> None:
    kinds = [child["kind"] for child in a_plan(a_model()).children]
    assert kinds.index("Secret") < kinds.index("ConfigMap")


def test_request_limits_lie_beside_the_public_key_and_restart_nothing() -> None:
    limit = {"name": "short", "maxK": 0, "when": {"promptTokensBelow": 20, "structuredOutput": False}}
    without, result = a_plan(a_model()), a_plan(a_model(speculation={"requestLimits": [limit]}))
    assert result.revision == without.revision
    file = limits_file({PUBLIC_KEY_FILE_VARIABLE: environment(result)[PUBLIC_KEY_FILE_VARIABLE]})
    assert file is not None
    for planned, rules in ((without, None), (result, [limit])):
        config_map = planned.child("ConfigMap")
        assert config_map is not None
        text = config_map["data"].get(file.name)  # type: ignore[attr-defined]
        assert rules == (None if text is None else json.loads(text))


def test_an_engine_knows_the_public_key_and_the_uid_of_its_own_pod() -> None:
    result = a_plan(a_model())
    file = Path(environment(result)[PUBLIC_KEY_FILE_VARIABLE])
    config_map = result.child("ConfigMap")
    assert config_map is not None
    assert config_map["data"][file.name] == KEYS.public  # type: ignore[index]
    mounts: list[Json] = engine_container(result)["volumeMounts"]  # type: ignore[assignment]
    assert {"name": "schedule", "mountPath": str(file.parent), "readOnly": True} in mounts
    variables: list[Json] = engine_container(result)["env"]  # type: ignore[assignment]
    uid = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    assert {"name": POD_UID_VARIABLE, "valueFrom": uid} in variables


@pytest.mark.parametrize("name", [PUBLIC_KEY_FILE_VARIABLE, POD_UID_VARIABLE])
def test_whose_requests_an_engine_takes_is_not_the_overlays_to_say(name: str) -> None:
    container = {"name": "engine", "env": [{"name": name, "value": "another"}]}
    result = a_plan(a_model(podTemplate={"spec": {"containers": [container]}}))
    assert f"env[{name}] belongs to Outrider: leave it out" in result.problems[0][1]


def test_pods_carry_the_revision() -> None:
    result = a_plan(a_model())
    deployment = result.child("Deployment")
    assert deployment is not None
    labels = deployment["spec"]["template"]["metadata"]["labels"]  # type: ignore[index]
    assert labels[REVISION_LABEL] == result.revision


def test_every_child_has_the_model_as_controller() -> None:
    for child in a_plan(a_model()).children:
        metadata = child["metadata"]
        assert isinstance(metadata, dict)
        (owner,) = metadata["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("u-1", True, True)


def test_the_longest_name_leaves_room_for_children() -> None:
    for child in a_plan(a_model(name="a" * MAX_NAME_LENGTH)).children:
        metadata = child["metadata"]
        assert isinstance(metadata, dict)
        assert len(metadata["name"]) <= 63


def test_the_engine_gets_one_gpu_per_rank() -> None:
    model = a_model(method="mtp", parallelism={"tensor": 2, "pipeline": 2})
    container = engine_container(a_plan(model))
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "4"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        pytest.param(None, {"cpu": "2", "memory": "8Gi"}, id="nothing"),
        pytest.param({}, {"cpu": "2", "memory": "8Gi"}, id="no resources"),
        pytest.param(
            {"limits": {"nvidia.com/gpu": 1}, "requests": {"ephemeral-storage": "1Gi"}},
            {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "1Gi"},
            id="neither CPU nor memory",
        ),
        pytest.param({"requests": {"cpu": "500m"}}, {"cpu": "500m"}, id="CPU"),
        pytest.param(CPU, None, id="a limit of memory, which Kubernetes requests too"),
    ],
)
def test_an_engine_asks_for_cpu_and_memory_where_the_spec_says(
    resources: dict[str, object] | None, requests: dict[str, str] | None
) -> None:
    container = engine_container(a_plan(a_model(resources=resources)))
    assert container["resources"].get("requests") == requests  # type: ignore[attr-defined]


CLAIMS = {"claims": [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]}


def test_devices_are_claimed_by_the_pod_and_used_by_the_engine() -> None:
    planned = a_plan(a_model(parallelism={"tensor": 4}, resources=CLAIMS))
    assert pod_spec(planned)["resourceClaims"] == [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]
    assert engine_container(planned)["resources"] == {
        "claims": [{"name": "gpus"}],
        "requests": {"cpu": "5", "memory": "20Gi"},
    }


def test_an_engine_with_claimed_devices_is_launched_as_on_a_gpu() -> None:
    drafted = {"drafter": {"uri": "hf://org/drafter"}}
    by_limits = a_plan(a_model(method="eagle3", speculation=drafted))
    assert arguments(a_plan(a_model(method="eagle3", speculation=drafted, resources=CLAIMS))) == arguments(
        by_limits
    )


@pytest.mark.parametrize(("kubernetes", "told"), [((1, 33), True), ((1, 34), False), (None, False)])
def test_a_cluster_that_would_drop_claims_is_told_of(kubernetes: tuple[int, int] | None, told: bool) -> None:
    model = a_model(resources=CLAIMS)
    planned = plan(model, settings=PlanSettings(), keys=KEYS, kubernetes=kubernetes)
    assert (DegradedReason.CLUSTER_TOO_OLD in dict(planned.problems)) is told


def test_shared_memory_grows_with_the_gpus() -> None:
    volumes = volumes_of(a_model(parallelism={"tensor": 8}))
    assert volumes["shm"] == {"medium": "Memory", "sizeLimit": "9Gi"}


def test_caches_have_a_size_unless_weights_come_into_them() -> None:
    downloads, mounts = volumes_of(a_model()), volumes_of(a_model(uri="pvc://weights/qwen"))
    assert (downloads["home"], mounts["home"]) == ({}, {"sizeLimit": "20Gi"})
    assert downloads["tmp"] == mounts["tmp"] == {"sizeLimit": "10Gi"}


def volumes_of(model: SpeculativeModel) -> dict[str, dict[str, str]]:
    """The empty ones, by name."""
    volumes: list[Any] = pod_spec(a_plan(model))["volumes"]  # type: ignore[assignment]
    return {volume["name"]: volume["emptyDir"] for volume in volumes if "emptyDir" in volume}


def test_the_share_of_memory_is_left_to_the_engine() -> None:
    drafted = a_model(method="eagle3", speculation={"drafter": {"uri": "hf://org/drafter"}})
    assert flag(a_plan(drafted), "--gpu-memory-utilization") is None


def test_a_flag_of_the_user_replaces_a_default() -> None:
    model = a_model(engine={"args": {"gpu-memory-utilization": 0.8, "max_num_seqs": 32}})
    flags = [word.partition("=")[0] for word in arguments(a_plan(model))]
    assert (flags.count("--gpu-memory-utilization"), flags.count("--max-num-seqs")) == (1, 1)
    assert flag(a_plan(model), "--max-num-seqs") == "32"


@pytest.mark.parametrize("args", [{}, {"shutdown-timeout": 300}, {"shutdown-timeout": 0}])
def test_requests_may_end_before_a_stopping_pod_is_killed(args: dict[str, object]) -> None:
    """The drain before SIGTERM gives them their time; beyond it the grace covers the engine's end."""
    found = a_plan(a_model(engine={"args": args}))
    container: Any = engine_container(found)
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    drain = int(command[command.index("--at-most") + 1])
    grace = pod_spec(found)["terminationGracePeriodSeconds"]
    assert isinstance(grace, int)
    assert drain - int(flag(found, "--shutdown-timeout") or 0) == 30
    assert grace - drain == 10


def test_a_stopping_pod_drains_the_port_that_it_serves_on() -> None:
    found: Any = engine_container(a_plan(a_model(engine={"port": 9000})))
    command = found["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:3] == ["python3", "-m", "outrider_engine.drain"]
    assert command[3:] == ["--port", "9000", "--at-least", "5", "--at-most", "80"]


def test_a_draining_pod_fails_its_readiness_and_no_other_probe() -> None:
    found: Any = engine_container(a_plan(a_model()))
    paths = {kind: found[kind]["httpGet"]["path"] for kind in found if kind.endswith("Probe")}
    readiness = f"{READINESS[0]}?{READINESS[1].decode()}"
    assert paths == {"startupProbe": "/health", "readinessProbe": readiness, "livenessProbe": "/health"}


def test_the_drain_of_the_user_takes_the_place_of_the_planned_one() -> None:
    lifecycle = {"preStop": {"sleep": {"seconds": 60}}}
    found = a_plan(
        a_model(podTemplate={"spec": {"containers": [{"name": "engine", "lifecycle": lifecycle}]}})
    )
    assert engine_container(found)["lifecycle"] == lifecycle


def test_who_sets_another_time_to_end_gets_it_once() -> None:
    found = a_plan(a_model(engine={"args": {"shutdown_timeout": 10}}))
    assert [word for word in arguments(found) if "shutdown" in word] == ["--shutdown_timeout=10"]


@pytest.mark.parametrize("value", ["soon", True, "-1"])
def test_a_time_to_end_that_is_no_number_of_seconds_is_refused(value: object) -> None:
    result = a_plan(a_model(engine={"args": {"shutdown-timeout": value}}))
    assert problems(result) == [DegradedReason.INVALID_SPEC]
    assert "shutdown-timeout must be a whole number from 0 to 86400" in result.problems[0][1]


@pytest.mark.parametrize("flag", ["max-num-seqs", "max-num-batched-tokens", "shutdown-timeout"])
@pytest.mark.parametrize("number", ["9" * 4_301, "9" * 20, 10**12, "٣"])
def test_a_number_that_nothing_counts_to_is_refused_by_its_flag(flag: str, number: object) -> None:
    result = a_plan(a_model(engine={"args": {flag: number}}))
    assert problems(result) == [DegradedReason.INVALID_SPEC]
    assert f"spec.engine.args.{flag} must be a whole number from" in result.problems[0][1]
    assert len(result.problems[0][1]) < 200


def test_a_token_budget_in_vllms_short_form_is_passed_on() -> None:
    found = a_plan(a_model(engine={"args": {"max-num-batched-tokens": "8k"}}))
    assert flag(found, "--max-num-batched-tokens") == "8k"


def test_a_variable_whose_name_is_no_text_is_refused() -> None:
    engine = {"name": "engine", "env": [{"name": ["VLLM_PLUGINS"]}]}
    result = a_plan(a_model(podTemplate={"spec": {"containers": [engine]}}))
    assert problems(result) == [DegradedReason.INVALID_SPEC]


def test_engines_measure_themselves_before_they_serve_unless_told_not_to() -> None:
    never = a_plan(a_model(speculation={"tuning": {"sweep": "Never"}}))
    assert environment(never)["OUTRIDER_SWEEP"] == "0"
    assert "OUTRIDER_SWEEP" not in environment(a_plan(a_model()))


def test_local_weights_need_no_hub() -> None:
    assert environment(a_plan(a_model(uri="pvc://models/qwen")))["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment(a_plan(a_model()))


def test_one_claim_is_mounted_once() -> None:
    drafter = {"drafter": {"uri": "pvc://models/drafter"}}
    result = a_plan(a_model(uri="pvc://models/target", method="draft_model", speculation=drafter))
    volumes = pod_spec(result)["volumes"]
    assert isinstance(volumes, list)
    assert [volume["name"] for volume in volumes if "persistentVolumeClaim" in volume] == ["models-0"]
    assert flag(result, "--model") == "/models/models/target"


def test_two_claims_are_mounted_side_by_side() -> None:
    drafter = {"drafter": {"uri": "pvc://drafters/eagle3"}}
    result = a_plan(a_model(uri="pvc://models/target", method="eagle3", speculation=drafter))
    mounts: list[dict[str, str]] = engine_container(result)["volumeMounts"]  # type: ignore[assignment]
    claims = {each["name"]: each["mountPath"] for each in mounts if each["name"].startswith("models-")}
    assert claims == {"models-0": "/models/models", "models-1": "/models/drafters"}
    config = json.loads(flag(result, "--speculative-config") or "")
    assert config["model"] == "/models/drafters/eagle3"


@pytest.mark.parametrize(
    ("parallelism", "flags"),
    [
        ({"tensor": 4, "expert": True}, {"--tensor-parallel-size=4", "--enable-expert-parallel"}),
        ({"tensor": 4, "pipeline": 2}, {"--tensor-parallel-size=4", "--pipeline-parallel-size=2"}),
        ({"data": 2}, {"--data-parallel-size=2"}),
        ({"tensor": 1, "pipeline": 1, "data": 1, "expert": False}, set()),
    ],
)
def test_parallelism_becomes_flags(parallelism: dict[str, object], flags: set[str]) -> None:
    result = a_plan(a_model(method="none", parallelism=parallelism))
    assert {word for word in arguments(result) if "parallel" in word} == flags


def test_n_grams_are_searched_on_one_thread() -> None:
    assert environment(a_plan(a_model(method="ngram")))["NUMBA_NUM_THREADS"] == "1"
    assert "NUMBA_NUM_THREADS" not in environment(a_plan(a_model(method="mtp")))


@pytest.mark.parametrize("release", RELEASES)
def test_an_engine_runs_the_image_of_its_release(release: str) -> None:
    settings = PlanSettings(engine_images={each: f"engine:{each}" for each in RELEASES})
    result = a_plan(a_model(engine={"version": release}), settings=settings)
    assert engine_container(result)["image"] == f"engine:{release}"


def test_a_model_can_have_no_replicas() -> None:
    deployment = a_plan(a_model(replicas=0)).child("Deployment")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 0  # type: ignore[index]


@pytest.mark.parametrize(
    ("method", "size"),
    [
        ("draft_model", 4),
        ("pard", 4),
        ("dspark", None),
        *((method, None) for method in ("eagle", "eagle3", "mtp", "dflash", "p_eagle", "medusa")),
    ],
)
def test_the_size_of_a_drafter_is_set_only_where_vllm_reads_it(method: str, size: int | None) -> None:
    """vLLM spreads heads and prediction layers as their target, and DSpark as its target by default."""
    static = (
        {} if method in ("draft_model", "eagle", "eagle3", "mtp", "dflash") else {"tuning": {"mode": "Off"}}
    )
    drafter = {"drafter": {"uri": "hf://org/drafter"}, **static}
    engine = {"version": "0.32.0"}
    model = a_model(method=method, speculation=drafter, parallelism={"tensor": 4}, engine=engine)
    text = flag(a_plan(model), "--speculative-config")
    assert text is not None
    assert json.loads(text).get("draft_tensor_parallel_size") == size


def test_a_dspark_drafter_lies_on_one_gpu_where_the_manifest_says_so() -> None:
    drafter = {"drafter": {"uri": "hf://org/d", "tensorParallelSize": 1}, "tuning": {"mode": "Off"}}
    model = a_model(method="dspark", speculation=drafter, parallelism={"tensor": 4})
    text = flag(a_plan(model), "--speculative-config")
    assert text is not None
    assert json.loads(text)["draft_tensor_parallel_size"] == 1


def test_too_few_batch_sizes_are_a_problem_and_give_no_children() -> None:
    result = a_plan(a_model(engine={"args": {"max-num-seqs": 2}}))
    assert (problems(result), result.children, result.revision) == ([DegradedReason.INVALID_SPEC], (), "")


def test_a_batch_size_in_words_is_a_problem() -> None:
    assert problems(a_plan(a_model(engine={"args": {"max-num-seqs": "many"}}))) == [
        DegradedReason.INVALID_SPEC
    ]


def test_an_engine_without_image_is_a_problem() -> None:
    result = a_plan(a_model(engine={"version": "0.31.0", "plugin": "Baked"}))
    assert problems(result) == [DegradedReason.UNSUPPORTED]
    assert "set spec.engine.image, or leave spec.engine.plugin out" in result.problems[0][1]


def test_pull_secrets_of_the_operator_reach_the_pod() -> None:
    defaults = PlanSettings(image_pull_secrets=("registry",))
    assert pod_spec(a_plan(a_model(), settings=defaults))["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize("cache", [None, {"size": "50Gi"}])
def test_no_pod_names_a_user_where_the_platform_assigns_them(cache: dict[str, str] | None) -> None:
    changes: dict[str, Any] = {} if cache is None else {"cache": cache}
    model = a_model(**changes)
    planned = a_plan(model, settings=PlanSettings(fixed_user=False))
    text = json.dumps(list(planned.children))
    assert "runAsNonRoot" in text
    assert not any(word in text for word in ("runAsUser", "runAsGroup", 'fsGroup"'))


def test_the_sources_of_a_plan_are_not_changed() -> None:
    model = a_model(podTemplate={"spec": {"nodeSelector": {"a": "b"}}})
    before = model.model_dump_json()
    a_plan(model)
    assert SpeculativeModel.model_validate_json(before) == model
