"""Labelled pods get the plugin from the chart's policy: the same as `outrider inject` adds to them.

The policy is rendered by Helm and applied alone. Every pod is a dry run of the API server, which sets its
defaults in pods of the command, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from outrider.importing.findings import ImportRefused
from outrider.importing.injection import Injection, inject
from outrider.plan.names import INJECT_LABEL, NOT_INJECTED_ANNOTATION
from outrider_protocol.releases import CPU_RELEASE, DEFAULT_RELEASE, RELEASES
from tests.cluster.helm import CHART, helm
from tests.cluster.kubectl import Object, kubectl, namespace, wait_for
from tests.environment.place import KUBERNETES, PLUGIN_IMAGE

pytestmark = pytest.mark.engine("none", "starts")

NAME = "chat"
WITHOUT_A_DRAFTER = ("mtp", "ngram", "ngram_gpu", "suffix")
METHODS = ("draft_model", "eagle", "eagle3", "dflash", "dspark", "medusa", *WITHOUT_A_DRAFTER)
BY_RELEASE = [
    (release, method, gpu)
    for release in (RELEASES[0], "0.31.0", CPU_RELEASE, DEFAULT_RELEASE)
    for method in METHODS
    for gpu in (True, False)
]


def a_config(k: int = 3, method: str = "eagle3", **more: Any) -> str:
    drafter = {} if method in WITHOUT_A_DRAFTER else {"model": "org/head"}
    return json.dumps({"method": method, "num_speculative_tokens": k, **drafter, **more})


def a_pod(
    *words: str, release: str = DEFAULT_RELEASE, gpu: bool = True, pod: Any = None, **container: Any
) -> Object:
    """An engine as its owner writes it. words: in place of its configuration."""
    speculation = words or (f"--speculative-config={a_config()}",)
    engine = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{release}",
        "args": ["--model=org/target", "--max-num-seqs=64", *speculation],
        "resources": {"limits": {"nvidia.com/gpu": "1"} if gpu else {"cpu": "1"}},
        **container,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace()},
        "spec": {"containers": [{"name": "side", "image": "side:1"}, engine], **(pod or {})},
    }


def a_script() -> Object:
    script = f"exec vllm serve org/target --speculative-config '{a_config()}'"
    return a_pod(command=["sh", "-c"], args=[script])


FORMS = {
    "two words": a_pod("--speculative-config", a_config()),
    "an underscore": a_pod(f"--speculative_config={a_config()}"),
    "spaces": a_pod("--speculative-config", json.dumps(json.loads(a_config()), indent=1)),
    "further keys": a_pod(f"--speculative-config={a_config(draft_tensor_parallel_size=1, revision='a1')}"),
    "in the command": a_pod(
        command=["vllm", "serve", "org/target", "--speculative-config", a_config()], args=["--port=8000"]
    ),
    "no batch size": a_pod(args=["--model=org/target", f"--speculative-config={a_config()}"]),
    "batch size as a word": a_pod(
        args=["--model=org/target", "--max-num-seqs", "24", "--speculative-config", a_config(8)]
    ),
    "lists of its own": a_pod(
        env=[{"name": "HF_HOME", "value": "/cache"}],
        volumeMounts=[{"name": "cache", "mountPath": "/cache"}],
        pod={
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "initContainers": [{"name": "first", "image": "first:1"}],
        },
    ),
    **{f"K={k}": a_pod(f"--speculative-config={a_config(k)}") for k in (1, 2, 5, 9, 16)},
    **{f"block of {k}": a_pod(f"--speculative-config={a_config(k, 'dflash')}") for k in (7, 15)},
}
LEFT: Mapping[str, tuple[Object, str]] = {
    "no drafts": (a_pod("--port=8000"), "not exactly one container"),
    "a script": (a_script(), "not exactly one container"),
    "two flags": (a_pod(*(f"--speculative-config={a_config(k)}" for k in (2, 3))), "more than once"),
    "nested JSON": (a_pod(f"--speculative-config={a_config(more={})}"), "not JSON of one level"),
    "no JSON": (a_pod("--speculative-config", "{$DRAFTS}"), "no num_speculative_tokens"),
    "another key": (a_pod(f"--speculative-config={a_config(parallel_drafting=True)}"), "does not read"),
    "no drafts at all": (a_pod(f"--speculative-config={a_config(0)}"), "from 1 to 16"),
    "many drafts": (a_pod(f"--speculative-config={a_config(17)}"), "from 1 to 16"),
    "ranks": (a_pod(f"--speculative-config={a_config()}", "--data_parallel_size=2"), "a flag changes"),
    "short flag": (a_pod(f"--speculative-config={a_config()}", "-dp", "2"), "a flag changes"),
    "small batch": (a_pod(f"--speculative-config={a_config()}", "--max-num-seqs=4"), "--max-num-seqs"),
    "search path": (a_pod(env=[{"name": "PYTHONPATH", "value": "/a"}]), "sets a variable"),
    "volume": (a_pod(pod={"volumes": [{"name": "outrider-state", "emptyDir": {}}]}), "a volume has"),
    "no release": (a_pod(image="vllm/vllm-openai:latest"), "changes no K"),
}


@pytest.fixture(scope="module", autouse=True)
def policy() -> Iterator[None]:
    """The policy of the chart is in force."""
    values = ("image.repository=operator", f"pluginImage={PLUGIN_IMAGE}", "injectionPolicy.enabled=true")
    settings = [word for value in values for word in ("--set", value)]
    only = ("--show-only", "templates/injectionpolicy.yaml", "--kube-version", KUBERNETES)
    rendered = helm("template", "injection-test", str(CHART), *settings, *only)
    try:
        kubectl("apply", "-f", "-", stdin=rendered)
        wait_for("the policy", lambda: created([a_pod()], labelled=True)[0], is_changed, seconds=30)
        yield
    finally:
        kubectl("delete", "--ignore-not-found", "-f", "-", stdin=rendered)


def is_changed(pod: Object | None) -> bool:
    """Whether the policy has seen a pod."""
    return pod is not None and bool(pod["annotations"])


def created(pods: Sequence[Object], *, labelled: bool) -> list[Object]:
    """The pods as the API server would store them."""
    labels = {INJECT_LABEL: NAME} if labelled else {}
    items = [
        {**pod, "metadata": {**pod["metadata"], "name": f"{NAME}-{number}", "labels": labels}}
        for number, pod in enumerate(pods)
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    printed = kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=listed)
    one_behind_another = "[" + printed.replace("\n}\n{\n", "\n},{\n") + "]"
    return [_plain(pod) for pod in json.loads(one_behind_another)]


def _plain(pod: Object) -> Object:
    """Annotations and spec; JSON among the words as objects, and lists by name without tokens of the pod."""
    text = re.sub(r"kube-api-access-[a-z0-9]+", "token", json.dumps(pod["spec"]))
    spec: Object = json.loads(text)
    spec["volumes"] = sorted(spec["volumes"], key=lambda each: str(each["name"]))
    for container in spec["containers"]:
        container["volumeMounts"].sort(key=lambda each: str(each["name"]))
        for field in {"command", "args"} & container.keys():
            container[field] = [_word(word) for word in container[field]]
    return {"annotations": pod["metadata"].get("annotations", {}), "spec": spec}


def _word(word: str) -> object:
    flag, _, value = word.rpartition("=")
    try:
        return [flag, json.loads(value)]
    except ValueError:
        return word


def by_the_command(pod: Object) -> Object | None:
    """The pod as ``outrider inject`` prints it; None where it refuses."""
    try:
        (found,) = inject(json.dumps(pod), Injection(image=PLUGIN_IMAGE, name=NAME))
    except ImportRefused:
        return None
    return found.manifest if found.changes else None


def compare(pods: Mapping[str, Object]) -> None:
    expected = [by_the_command(pod) or pod for pod in pods.values()]
    assert sum(wanted is not pod for wanted, pod in zip(expected, pods.values(), strict=True)) > 10
    by_policy = created(list(pods.values()), labelled=True)
    for name, own, other in zip(pods, by_policy, created(expected, labelled=False), strict=True):
        cause = own["annotations"].pop(NOT_INJECTED_ANNOTATION, None)
        assert (cause is None) == (by_the_command(pods[name]) is not None), f"{name}: {cause}"
        assert own == other, name


def test_the_policy_decides_as_the_command_for_each_method_and_release() -> None:
    compare(
        {
            f"{release} {method} {gpu}": a_pod(
                f"--speculative-config={a_config(method=method)}", release=release, gpu=gpu
            )
            for release, method, gpu in BY_RELEASE
        }
    )


def test_the_policy_adds_the_same_as_the_command_in_each_form() -> None:
    compare(FORMS)


def test_pods_that_the_policy_does_not_read_stay_as_they_are_and_say_why() -> None:
    plain = created([pod for pod, _ in LEFT.values()], labelled=False)
    by_policy = created([pod for pod, _ in LEFT.values()], labelled=True)
    for (name, (_, why)), own, other in zip(LEFT.items(), by_policy, plain, strict=True):
        assert why in own["annotations"].pop(NOT_INJECTED_ANNOTATION, ""), name
        assert own == other, name
