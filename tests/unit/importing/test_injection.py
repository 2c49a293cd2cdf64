"""The plugin in the pods of a manifest that stays its owner's: what is added, and what never changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from outrider.importing.findings import ImportRefused
from outrider.importing.injection import Injected, Injection, inject
from outrider.plan.names import PLUGIN_ANNOTATION
from outrider.plan.plugin import with_plugin
from tests.unit.importing import import_golden

PLUGIN = "registry/plugin:1"
CONFIG = {"method": "eagle3", "model": "org/head", "num_speculative_tokens": 3}
TABLE = "num_speculative_tokens_per_batch_size"
GPU = {"limits": {"nvidia.com/gpu": 1}}
Json = dict[str, Any]


def a_container(*, image: str = "vllm/vllm-openai:v0.33.0", **fields: Any) -> Json:
    words = ["--model=org/target", "--max-num-seqs=64", "--speculative-config", json.dumps(CONFIG)]
    return {"name": "vllm", "image": image, "args": words, "resources": GPU, **fields}


def a_deployment(*containers: Json, **pod: Any) -> Json:
    spec = {"containers": list(containers) or [a_container()], **pod}
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": spec}
    return {"kind": "Deployment", "metadata": {"name": "chat"}, "spec": {"template": template}}


def injected(*documents: Json, **wanted: Any) -> list[Injected]:
    return list(inject(yaml.safe_dump_all(documents), Injection(image=PLUGIN, **wanted)))


def pod(document: Json, **wanted: Any) -> Json:
    (found,) = injected(document, **wanted)
    spec: Any = found.manifest["spec"]
    return spec["template"]["spec"]  # type: ignore[no-any-return]


def engine(document: Json) -> Json:
    return next(one for one in pod(document)["containers"] if one["name"] == "vllm")


def variables(container: Json) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_the_pod_gets_the_plugin_as_the_planner_gives_it() -> None:
    changed = pod(a_deployment())
    assert with_plugin(changed, container="vllm", image=PLUGIN) == changed
    assert changed["initContainers"][0]["image"] == PLUGIN


def test_image_command_probes_and_other_containers_stay() -> None:
    side = {"name": "side", "image": "side:1"}
    probe = {"httpGet": {"path": "/health", "port": 8000}}
    before = a_deployment(a_container(command=["vllm", "serve"], readinessProbe=probe), side, hostIPC=True)
    after = pod(before)
    assert after["containers"][1] == side
    assert after["hostIPC"] is True
    for field in ("image", "command", "readinessProbe", "resources"):
        assert engine(before)[field] == before["spec"]["template"]["spec"]["containers"][0][field]


def test_vllm_gets_every_k_below_that_of_the_flags_and_keeps_the_rest_of_its_configuration() -> None:
    words = engine(a_deployment())["args"]
    config = json.loads(words[words.index("--speculative-config") + 1])
    assert {key: config[key] for key in CONFIG} == CONFIG
    assert [row[2] for row in config[TABLE]] == [3, 2, 1, 0]
    assert config[TABLE][0][0] == 1


@pytest.mark.parametrize(
    "form",
    [
        "--speculative-config={}",
        "--speculative_config={}",
        "-sc={}",
        "--speculative-con={}",
        "--speculative_con={}",
    ],
)
def test_the_flag_is_found_in_each_form(form: str) -> None:
    args = ["--model=org/target", form.format(json.dumps(CONFIG))]
    (changed,) = (word for word in engine(a_deployment(a_container(args=args)))["args"] if TABLE in word)
    assert changed.startswith(form.removesuffix("{}"))


@pytest.mark.parametrize("flag", ["--speculative-config", "--speculative_con", "-sc"])
def test_the_flag_is_found_in_a_shell_script(flag: str) -> None:
    script = f"exec vllm serve org/target {flag} '{json.dumps(CONFIG)}' --port 8000"
    (changed,) = engine(a_deployment(a_container(command=["sh", "-c"], args=[script])))["args"]
    config = json.loads(changed.split("'")[1])
    assert {key: config[key] for key in CONFIG} == CONFIG
    assert TABLE in config
    assert changed.endswith("' --port 8000")


def test_a_configuration_of_single_keys_gets_the_table_as_one_more() -> None:
    args = ["--model=org/target", *(f"--speculative-con.{key}={value}" for key, value in CONFIG.items())]
    *kept, added = engine(a_deployment(a_container(args=args)))["args"]
    assert kept == args
    assert added.startswith(f"--speculative-config.{TABLE}=[[1,")


def test_flags_of_single_parts_are_refused_by_their_names() -> None:
    words = ["--spec-method=ngram", "--spec-tokens", "3"]
    script = " ".join(["vllm serve org/target", *words])
    for container in (
        a_container(args=["--model=org/target", *words]),
        a_container(command=["sh", "-c"], args=[script]),
    ):
        with pytest.raises(ImportRefused, match="the engine has --spec-method and --spec-tokens; write them"):
            injected(a_deployment(container))


def test_a_schedule_of_the_owner_stays() -> None:
    own = {**CONFIG, TABLE: [[1, 8, 3], [9, 64, 0]]}
    args = ["--model=org/target", f"--speculative-config={json.dumps(own)}"]
    assert engine(a_deployment(a_container(args=args)))["args"] == args


def test_without_a_gpu_the_plugin_has_the_candidates_and_the_flags_stay() -> None:
    container = a_container(resources={"requests": {"cpu": 1}})
    after = engine(a_deployment(container))
    assert after["args"] == container["args"]
    assert variables(after)["OUTRIDER_CANDIDATES"] == "0,1,2,3"
    assert variables(after)["VLLM_USE_V2_MODEL_RUNNER"] == "0"


def test_requests_are_accepted_by_the_key_of_the_named_model_once_it_exists() -> None:
    changed = pod(a_deployment(), name="tuned")
    volume = {"name": "outrider-schedule", "configMap": {"name": "tuned-schedule", "optional": True}}
    assert volume in changed["volumes"]
    found = variables(changed["containers"][0])
    assert found["OUTRIDER_PUBLIC_KEY_FILE"] == "/etc/outrider/schedule/control-key.pub"
    assert found["OUTRIDER_POD_UID"]["fieldRef"]["fieldPath"] == "metadata.uid"


def test_an_engine_drafts_as_its_flags_say_until_it_is_tuned() -> None:
    """A file that is not there yet would let it serve with K=0."""
    assert "OUTRIDER_STATIC_SCHEDULE_FILE" not in variables(engine(a_deployment()))


def test_pods_name_the_model_whose_key_they_accept() -> None:
    (found,) = injected(a_deployment())
    template: Any = found.manifest["spec"]
    assert template["template"]["metadata"]["annotations"] == {PLUGIN_ANNOTATION: "chat"}


def test_other_plugins_and_search_paths_stay_behind_outriders() -> None:
    env = [{"name": "VLLM_PLUGINS", "value": "mine"}, {"name": "PYTHONPATH", "value": "/mine"}]
    found = variables(engine(a_deployment(a_container(env=env))))
    assert found["VLLM_PLUGINS"] == "outrider,outrider_api,mine"
    assert found["PYTHONPATH"] == "/opt/outrider:/mine"


def test_a_second_injection_changes_nothing() -> None:
    (once,) = injected(a_deployment())
    (twice,) = injected(once.manifest)
    assert twice.manifest == once.manifest


def test_objects_without_an_engine_stay_as_they_are() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat"}, "spec": {"ports": []}}
    other = a_deployment({"name": "web", "image": "web:1"})
    found = injected(service, a_deployment(), other)
    assert [bool(each.changes) for each in found] == [False, True, False]
    assert [found[0].manifest, found[2].manifest] == [service, other]


def test_a_pod_and_each_template_of_a_group_get_it() -> None:
    spec = a_deployment()["spec"]["template"]["spec"]
    both = {"leaderTemplate": {"spec": spec}, "workerTemplate": {"spec": spec}}
    large = {"name": "large"}
    group = {"kind": "LeaderWorkerSet", "metadata": large, "spec": {"leaderWorkerTemplate": both}}
    one, several = injected({"kind": "Pod", "metadata": {"name": "one"}, "spec": spec}, group)
    templates: Any = several.manifest["spec"]
    for found in (one.manifest, *templates["leaderWorkerTemplate"].values()):
        assert found["spec"]["initContainers"][0]["name"] == "outrider-plugin"
        assert PLUGIN_ANNOTATION in found["metadata"]["annotations"]


def test_a_pod_of_kserve_without_flags_for_the_model_gets_it() -> None:
    container = a_container(name="main", args=[f"--speculative-config={json.dumps(CONFIG)}"])
    document = {
        "kind": "LLMInferenceService",
        "metadata": {"name": "qwen"},
        "spec": {"model": {"uri": "hf://org/target"}, "template": {"containers": [container]}},
    }
    (found,) = injected(document)
    assert "no annotation, since .template has no metadata of its pods" in found.changes


@pytest.mark.parametrize(
    ("container", "why"),
    [
        (a_container(args=["--model=org/target"]), "the engine drafts nothing"),
        (a_container(image="vllm/vllm-openai:latest"), "names no release of vLLM"),
        (a_container(image="vllm/vllm-openai:v0.11.0"), "0.11.0"),
        (
            a_container(
                command=["sh", "-c"],
                args=[f"vllm serve org/target --speculative-config {json.dumps(json.dumps(CONFIG))}"],
            ),
            f'add "{TABLE}": [[1,',
        ),
        (
            a_container(env=[{"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {}}}]),
            "env[PYTHONPATH] has no plain value",
        ),
        (
            a_container(env=[{"name": "VLLM_PLUGINS", "valueFrom": {"configMapKeyRef": {}}}]),
            "write its plugins as a value",
        ),
        (
            {
                "name": "engine",
                "image": "lmsysorg/sglang:v0.5.23",
                "command": ["python3", "-m", "sglang.launch_server"],
                "args": ["--model-path=a/b", "--speculative-algorithm=NGRAM"],
            },
            "Outrider adds its plugin to running pods of vLLM only",
        ),
    ],
)
def test_an_engine_that_cannot_be_tuned_is_refused_with_its_place_and_what_to_do(
    container: Json, why: str
) -> None:
    with pytest.raises(ImportRefused) as refused:
        injected(a_deployment(container))
    assert str(refused.value).startswith("Deployment chat, spec.template.spec: ")
    assert why in str(refused.value)


DRAFTING: Sequence[str] = ("deployment-eagle3", "leader-worker-set-mtp")


@pytest.mark.parametrize("case", DRAFTING)
def test_sources_that_can_be_imported_can_be_injected(case: str) -> None:
    text = (import_golden.FOLDER / f"{case}.in.yaml").read_text()
    assert any(each.changes for each in inject(text, Injection(image=PLUGIN)))


def test_an_object_of_the_api_server_loses_what_only_that_sets() -> None:
    own = a_deployment()
    last = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {
        **own["metadata"],
        "uid": "1",
        "resourceVersion": "2",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {last: "{}", "team": "a"},
    }
    stored = {**own, "metadata": metadata, "status": {"replicas": 1}}
    (found,) = injected(stored)
    (written,) = injected(own)
    assert found.manifest["metadata"] == {"name": "chat", "annotations": {"team": "a"}}
    assert "status" not in found.manifest
    assert found.manifest["spec"] == written.manifest["spec"]


@pytest.mark.parametrize(
    ("config", "more", "why"),
    [
        (CONFIG, ["--data-parallel-size=2"], "its data-parallel ranks could use different K"),
        ({"method": "suffix", "num_speculative_tokens": 3}, [], "method suffix"),
        ({"method": "medusa", "model": "org/head", "num_speculative_tokens": 3}, [], "medusa"),
        ({"method": "eagle3", "num_speculative_tokens": 3}, [], "needs a drafter"),
        ({"method": "dspark", "model": "org/head", "num_speculative_tokens": 7}, ["--enable-dbo"], "dspark"),
    ],
)
def test_an_engine_whose_k_cannot_change_is_refused(config: Json, more: list[str], why: str) -> None:
    args = ["--model=org/target", f"--speculative-config={json.dumps(config)}", *more]
    with pytest.raises(ImportRefused, match=why):
        injected(a_deployment(a_container(args=args)))
