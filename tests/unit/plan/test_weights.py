"""Weights that are downloaded onto a volume before engines start."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from outrider.api.quantity import MAX_NAME_LENGTH
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan, PlanSettings
from outrider.plan.names import MODEL_LABEL
from outrider.plan.weights.fit import advice
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.plan.factories import (
    CACHE,
    COMMIT,
    a_model,
    a_plan,
    engine_container,
    environment,
    flag,
    pod_spec,
    with_weights,
)

Json = dict[str, Any]
DRAFTER = {"drafter": {"uri": "hf://org/drafter"}}
BUCKET = {"uri": "s3://models/qwen3-8b"}


def a_cached_model(**more: Any) -> SpeculativeModel:
    return a_model(**{"method": "eagle3", "speculation": DRAFTER, "cache": CACHE, **more})


def job(planned: Plan) -> Json:
    child = planned.child("Job")
    assert child is not None, planned.problems
    return cast(Json, child)


def pod(planned: Plan) -> Json:
    return cast(Json, job(planned)["spec"]["template"]["spec"])


def container(planned: Plan) -> Json:
    return cast(Json, pod(planned)["containers"][0])


def env(planned: Plan) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container(planned)["env"]}


def test_before_the_weights_are_there_a_job_stands_in_place_of_engines() -> None:
    planned = a_plan(a_cached_model())
    kinds = [child["kind"] for child in planned.children]
    assert kinds[-2:] == ["PersistentVolumeClaim", "Job"]
    assert "Deployment" not in kinds


def test_one_job_brings_target_and_drafter() -> None:
    wanted = json.loads(env(a_plan(a_cached_model(uri="hf://org/target")))["OUTRIDER_WEIGHTS"])
    assert wanted == {
        "folder": "/models/qwen-weights",
        "shared": False,
        "artifacts": [
            {"role": "model", "repository": "org/target"},
            {"role": "drafter", "repository": "org/drafter"},
        ],
    }


def test_weights_that_are_no_hubs_are_not_downloaded() -> None:
    wanted = json.loads(env(a_plan(a_cached_model(uri="pvc://models/target")))["OUTRIDER_WEIGHTS"])
    assert [artifact["role"] for artifact in wanted["artifacts"]] == ["drafter"]


STORE = {"endpoint": "http://minio:9000", "region": "eu-1", "secret": "minio"}


def in_a_bucket(**store: Any) -> SpeculativeModel:
    return a_cached_model(model=BUCKET, cache={**CACHE, "s3": store} if store else CACHE)


def test_one_job_brings_a_model_from_a_bucket_and_a_drafter_from_the_hub() -> None:
    wanted = json.loads(env(a_plan(in_a_bucket(**STORE)))["OUTRIDER_WEIGHTS"])
    endpoint = "http://minio:9000"
    assert wanted["artifacts"] == [
        {"role": "model", "bucket": "models", "folder": "qwen3-8b", "endpoint": endpoint},
        {"role": "drafter", "repository": "org/drafter"},
    ]


def test_the_keys_of_a_store_are_the_jobs_and_no_engines() -> None:
    told = env(a_plan(in_a_bucket(**STORE)))
    key = {"name": "minio", "key": "AWS_SECRET_ACCESS_KEY"}
    assert told["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": key}
    assert told["AWS_SESSION_TOKEN"]["secretKeyRef"]["optional"] is True
    assert told["AWS_REGION"] == "eu-1"
    assert not [name for name in environment(a_plan(with_weights(in_a_bucket(**STORE)))) if "AWS" in name]


@pytest.mark.parametrize(
    ("store", "hosts"),
    [
        ({}, "true"),
        ({"endpoint": "http://minio:9000"}, "false"),
        ({"endpoint": "http://minio:9000", "addressing": "VirtualHost"}, "true"),
    ],
    ids=["AWS", "a store of one's own", "as asked"],
)
def test_a_bucket_is_named_where_its_store_expects_it(store: Json, hosts: str) -> None:
    assert env(a_plan(in_a_bucket(**store)))["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == hosts


def test_without_a_secret_the_identity_of_the_pods_reads_the_bucket() -> None:
    planned = a_plan(in_a_bucket())
    assert not [name for name in env(planned) if name.startswith("AWS_") and name.endswith(("KEY", "ID"))]
    assert pod(planned)["serviceAccountName"] == "qwen"


def test_what_the_job_sets_wins_over_the_environment_of_engines() -> None:
    overlay = {"spec": {"containers": [{"name": "engine", "env": [{"name": "AWS_REGION", "value": "x"}]}]}}
    model = a_cached_model(model=BUCKET, cache={**CACHE, "s3": STORE}, podTemplate=overlay)
    assert [e["value"] for e in container(a_plan(model))["env"] if e["name"] == "AWS_REGION"] == ["eu-1"]


def test_the_job_asks_the_hub_and_may_write_to_its_claim_only() -> None:
    planned = a_plan(a_cached_model(uri="pvc://models/target"))
    read_only = {mount["mountPath"]: mount.get("readOnly") for mount in container(planned)["volumeMounts"]}
    assert "HF_HUB_OFFLINE" not in env(planned)
    assert read_only["/models/qwen-weights"] is None
    assert read_only["/models/models"] is True


def test_files_of_a_volume_belong_to_a_group_of_the_engines_user() -> None:
    planned = a_plan(a_cached_model())
    security = pod(planned)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["fsGroup"] == security["runAsGroup"]


def test_the_token_is_the_jobs_and_no_engines() -> None:
    model = a_cached_model(model={"uri": "hf://org/target", "secretRef": {"name": "hf-token"}})
    assert env(a_plan(model))["HF_TOKEN"] == {"secretKeyRef": {"name": "hf-token", "key": "token"}}
    assert "HF_TOKEN" not in environment(a_plan(with_weights(model)))


def test_the_job_runs_where_engines_run_and_takes_no_gpu() -> None:
    overlay = {
        "spec": {
            "nodeSelector": {"gpu": "h100"},
            "containers": [{"name": "engine", "env": [{"name": "HF_ENDPOINT", "value": "http://mirror"}]}],
        }
    }
    planned = a_plan(a_cached_model(podTemplate=overlay))
    assert pod(planned)["nodeSelector"] == {"gpu": "h100"}
    assert env(planned)["HF_ENDPOINT"] == "http://mirror"
    assert "nvidia.com/gpu" not in json.dumps(container(planned)["resources"])


def test_containers_beside_the_engine_do_not_keep_a_job_from_ending() -> None:
    overlay = {"spec": {"containers": [{"name": "proxy", "image": "proxy:1"}]}}
    assert [c["name"] for c in pod(a_plan(a_cached_model(podTemplate=overlay)))["containers"]] == ["download"]


def test_no_service_finds_the_pods_of_a_job() -> None:
    assert MODEL_LABEL not in job(a_plan(a_cached_model()))["spec"]["template"]["metadata"]["labels"]


def test_the_program_comes_from_the_operators_image_where_the_engine_is_a_stock_one() -> None:
    model = a_cached_model(
        engine={"image": "vllm/vllm-openai:v0.33.0"},
        speculation={**DRAFTER, "tuning": {"mode": "Off", "actuation": "Rollout"}},
    )
    settings = PlanSettings(engine_images={DEFAULT_RELEASE: "registry/engine:default"})
    assert container(a_plan(model, settings=settings))["image"] == "registry/engine:default"


def test_engines_load_the_commit_that_was_downloaded_read_only_and_offline() -> None:
    planned = a_plan(with_weights(a_cached_model(uri="hf://org/target")))
    folder = f"/models/qwen-weights/hub/models--org--target/snapshots/{COMMIT}"
    volumes = cast(list[Json], pod_spec(planned)["volumes"])
    mounts = cast(list[Json], engine_container(planned)["volumeMounts"])

    assert flag(planned, "--model") == folder
    assert flag(planned, "--revision") is None
    assert environment(planned)["HF_HUB_OFFLINE"] == "1"
    assert [v["persistentVolumeClaim"] for v in volumes if "persistentVolumeClaim" in v] == [
        {"claimName": "qwen-weights", "readOnly": True}
    ]
    assert [m["readOnly"] for m in mounts if m["mountPath"] == "/models/qwen-weights"] == [True]
    assert planned.child("Job") is None


@pytest.mark.parametrize(
    "change",
    [
        {"uri": "hf://org/other"},
        {"model": {"uri": "hf://org/target", "revision": "v2"}},
        {"speculation": {"drafter": {"uri": "hf://org/other"}}},
        {"cache": {"claim": "shared"}},
        {"model": BUCKET},
    ],
    ids=str,
)
def test_another_wish_is_another_download(change: Json) -> None:
    before = with_weights(a_cached_model(uri="hf://org/target"))
    after = a_cached_model(**{"uri": "hf://org/target", **change})
    assert a_plan(after.model_copy(update={"status": before.status})).download is not None


def test_replicas_and_tables_download_nothing_anew() -> None:
    before = with_weights(a_cached_model(uri="hf://org/target"))
    after = a_cached_model(
        uri="hf://org/target", replicas=5, speculation={**DRAFTER, "numSpeculativeTokens": 3}
    )
    assert a_plan(after.model_copy(update={"status": before.status})).download is None


def test_an_existing_claim_is_mounted_and_not_made() -> None:
    planned = a_plan(a_cached_model(cache={"claim": "shared"}))
    assert planned.child("PersistentVolumeClaim") is None
    assert json.loads(env(planned)["OUTRIDER_WEIGHTS"])["shared"] is True


def test_names_of_the_longest_model_fit_into_labels() -> None:
    planned = a_plan(a_cached_model(name="m" * MAX_NAME_LENGTH))
    assert len(job(planned)["metadata"]["name"]) <= 63


@pytest.mark.parametrize(
    ("method", "target", "drafter", "numbers"),
    [
        ("draft_model", {"vocabulary_size": 151936}, {"vocabulary_size": 32000}, ("151936", "32000")),
        ("eagle3", {"hidden_size": 4096}, {"hidden_size": 2048}, ("4096", "2048")),
        (
            "eagle3",
            {"hidden_size": 4096},
            {"hidden_size": 4096, "target_hidden_size": 5120},
            ("4096", "5120"),
        ),
        ("eagle", {"hidden_size": 4096}, {"hidden_size": 2048}, ("4096", "2048")),
        ("eagle", {}, {"made_for_method": "eagle3"}, ("eagle3", "spec.speculation.method")),
        ("draft_model", {}, {"made_for_method": "dflash"}, ("dflash", "spec.speculation.method")),
    ],
)
def test_a_drafter_that_cannot_fit_is_told_with_both_numbers(
    method: str, target: Json, drafter: Json, numbers: tuple[str, str]
) -> None:
    planned = a_plan(with_weights(a_cached_model(method=method), target, drafter))
    ((reason, message),) = planned.problems
    assert reason is DegradedReason.DRAFTER_MISMATCH
    assert all(number in message for number in numbers)


@pytest.mark.parametrize(
    ("method", "target", "drafter"),
    [
        ("draft_model", {"vocabulary_size": 151936}, {"vocabulary_size": 151936}),
        ("draft_model", {"vocabulary_size": 151936}, {}),
        ("eagle3", {"hidden_size": 4096}, {"hidden_size": 2048, "target_hidden_size": 4096}),
        ("eagle3", {"vocabulary_size": 151936}, {"vocabulary_size": 32000}),
        ("eagle3", {}, {}),
        ("eagle3", {}, {"made_for_method": "eagle3"}),
        ("eagle3", {}, {"made_for_method": "another"}),
    ],
)
def test_what_may_fit_is_not_refused(method: str, target: Json, drafter: Json) -> None:
    assert not a_plan(with_weights(a_cached_model(method=method), target, drafter)).problems


RANKS = {"parallelism": {"data": 4}, "replicas": 2}


@pytest.mark.parametrize(
    ("told", "advised"),
    [({"layers": 36}, True), ({"layers": 48, "experts": 128}, False), ({}, False)],
    ids=["dense", "mixture of experts", "not told"],
)
def test_ranks_that_do_not_wait_for_each_other_are_better_replicas(told: Json, advised: bool) -> None:
    speculation = {**DRAFTER, "tuning": {"actuation": "Rollout"}}
    there = with_weights(a_cached_model(speculation=speculation, **RANKS), told)
    assert there.status.weights is not None
    words = advice(there.spec, there.status.weights)
    assert (words is not None and "replicas: 8 and parallelism.data: 1" in words) is advised


def test_a_drafter_of_another_vocabulary_is_taken_where_vllm_was_told_to() -> None:
    model = a_cached_model(
        method="draft_model", speculation={**DRAFTER, "config": {"use_heterogeneous_vocab": True}}
    )
    assert not a_plan(with_weights(model, {"vocabulary_size": 2}, {"vocabulary_size": 3})).problems


@pytest.mark.parametrize(
    ("method", "model", "target", "drafter", "told"),
    [
        ("draft_model", {}, {"longest_context": 8192}, {"longest_context": 2048}, ("8192", "2048")),
        ("draft_model", {"maxLength": 4096}, {}, {"longest_context": 2048}, ("4096", "2048")),
        ("draft_model", {}, {"chat_template": "a"}, {"chat_template": "b"}, ("chat template",)),
        ("draft_model", {"maxLength": 2048}, {"longest_context": 8192}, {"longest_context": 2048}, ()),
        ("draft_model", {}, {"chat_template": "a"}, {}, ()),
        (
            "eagle3",
            {},
            {"longest_context": 8192},
            {"longest_context": 2048},
            ("8192", "2048", "longer requests"),
        ),
        ("eagle3", {}, {"longest_context": 2048}, {"longest_context": 2048}, ()),
        ("eagle3", {}, {}, {"made_for_tokens": 3}, ("drafts of 3 tokens", "guesses")),
        ("eagle3", {}, {}, {"made_for_tokens": 7}, ("drafts of 7 tokens", "not tried")),
        ("eagle3", {}, {}, {"made_for_tokens": 5}, ()),
    ],
    ids=[
        "short",
        "shorter than asked",
        "another template",
        "as long as asked",
        "no template",
        "a shorter head",
        "a head as long",
        "shorter drafts",
        "longer drafts",
        "the same drafts",
    ],
)
def test_what_engines_take_and_do_less_well_is_told(
    method: str, model: Json, target: Json, drafter: Json, told: tuple[str, ...]
) -> None:
    cached = a_cached_model(method=method, model={"uri": "hf://org/target", **model})
    there = with_weights(cached, target, drafter)
    assert there.status.weights is not None
    words = advice(there.spec, there.status.weights)
    assert not a_plan(there).problems
    assert (words is not None) is bool(told)
    assert all(word in (words or "") for word in told)
