"""What engines say of themselves, asked past the operator."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from outrider.engine.signing import SigningKey
from tests.cluster.api_server import ApiServerError, read
from tests.cluster.kubectl import Object, condition, get, kubectl, list_objects, namespace, wait_for

STATE, SCHEDULE = "/outrider/v1/state", "/outrider/v1/schedule"
_TOKENS = "vllm:generation_tokens_total"
_READ = ("outrider:", _TOKENS, "vllm:num_requests_running")
_ASK = """
import os, sys, urllib.error, urllib.request
method, path, authorization, body = sys.argv[1:]
port = os.environ.get("OUTRIDER_CONTROL_PORT", "8000")
url, headers = f"http://127.0.0.1:{port}{path}", {"Authorization": authorization}
request = urllib.request.Request(url, method=method, data=body.encode(), headers=headers)
try:
    print(urllib.request.urlopen(request, timeout=60).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""
_SIGNAL_ENGINE_CORE = """
import os, pathlib, signal, sys
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    if "EngineCore" in (folder / "comm").read_text() + (folder / "cmdline").read_text():
        os.kill(int(folder.name), signal.Signals[sys.argv[1]])
        break
else:
    sys.exit("no engine core runs")
"""


@dataclass(frozen=True)
class Page:
    """What one engine shows on ``/metrics``."""

    term: int
    epoch: int
    lease_seconds: float
    probing: bool
    table: Mapping[str, int]
    """K by label of the batch bin; while a probe runs, with the probe on top."""
    tokens: float
    running: int


def read_page(pod: str, *, seconds: float = 15.0) -> Page:
    """The page, of an engine that may be busy."""
    deadline = time.monotonic() + seconds
    while (found := page(pod)) is None:
        assert time.monotonic() < deadline, f"no metrics of {pod} within {seconds:.0f} s"
        time.sleep(0.2)
    return found


def page(pod: str) -> Page | None:
    """The page as it stands; None where the engine does not answer in time."""
    try:
        samples = _samples(pod, seconds=5)
    except ApiServerError:
        return None
    values: dict[str, float] = {}
    table: dict[str, int] = {}
    for sample in samples:
        if sample.name == "outrider:num_speculative_tokens":
            table[sample.labels["batch"]] = int(sample.value)
        else:
            values[sample.name] = sample.value
    if not table:
        return None
    return Page(
        term=int(values["outrider:term"]),
        epoch=int(values["outrider:epoch"]),
        lease_seconds=values["outrider:lease_remaining_seconds"],
        probing=values["outrider:probe_running"] > 0,
        table=table,
        tokens=values[_TOKENS],
        running=int(values["vllm:num_requests_running"]),
    )


def tokens(pod: str) -> float:
    """How many an engine has generated, with a drafter or without."""
    return sum(sample.value for sample in _samples(pod) if sample.name == _TOKENS)


@dataclass(frozen=True)
class FastLoopSeconds:
    """Engine time of steps for which the fast loop chose K."""

    idle: float
    """At K=0."""
    drafting: float
    """With drafts, looks apart."""
    looking: float

    @property
    def all(self) -> float:
        """Of all these steps."""
        return self.idle + self.drafting + self.looking

    def __sub__(self, other: FastLoopSeconds) -> FastLoopSeconds:
        return FastLoopSeconds(
            self.idle - other.idle, self.drafting - other.drafting, self.looking - other.looking
        )


def fast_loop_seconds(pod: str) -> FastLoopSeconds:
    """What an engine shows since its start."""
    idle = drafting = looking = 0.0
    for sample in _samples(pod):
        if sample.name == "outrider:fast_loop_look_seconds_total":
            looking += sample.value
        elif sample.name == "outrider:fast_loop_step_seconds_total" and sample.labels["k"] == "0":
            idle += sample.value
        elif sample.name == "outrider:fast_loop_step_seconds_total":
            drafting += sample.value
    return FastLoopSeconds(idle, drafting - looking, looking)


def state(pod: str) -> dict[str, Any]:
    """The answer of the engine's own control API."""
    return ask(pod, signed_for=pod, method="GET", path=STATE)


def ask(
    pod: str, *, signed_for: str, method: str, path: str, body: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The answer, or the refusal, of one pod to what the operator would sign for a pod of its model."""
    metadata = _pod(signed_for)["metadata"]
    key = signing_key(metadata["labels"]["outrider.dev/model"])
    return ask_by(key, pod, uid=metadata["uid"], method=method, path=path, body=body)


def ask_by(
    key: SigningKey,
    pod: str,
    *,
    uid: str,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """The answer, or the refusal, of one pod to what the holder of a key signs for the pod of a UID."""
    content = "" if body is None else json.dumps(body)
    authorization = key.authorization(method=method, path=path, pod_uid=uid, body=content.encode())
    answer: dict[str, Any] = json.loads(_run_in(pod, _ASK, method, path, authorization, content))
    return answer


def signing_key(model: str) -> SigningKey:
    """The operator's key for the engines of a model."""
    secret = get("secret", f"{model}-control")
    assert secret is not None, f"{model} has no Secret with a key"
    return SigningKey.read(base64.b64decode(secret["data"]["private-key"]))


def signal_engine_core(pod: str, signal: str) -> None:
    """Such as SIGKILL: the process that steps the model gets it, the API server does not."""
    _run_in(pod, _SIGNAL_ENGINE_CORE, signal)


def pods_of(model: str) -> list[Object]:
    """The engine pods that are not being deleted, by name."""
    pods = list_objects("pods", selector=f"outrider.dev/model={model}")
    left = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    return sorted(left, key=name_of)


def ready_pods(model: str) -> list[str]:
    """Names of the engine pods that take traffic."""
    pods = pods_of(model)
    return [name_of(pod) for pod in pods if (found := condition(pod, "Ready")) and found["status"] == "True"]


def wait_for_ready(model: str, names: Collection[str]) -> None:
    """Until these pods and no others take traffic: on a busy machine a pod misses a probe at times."""
    wait_for(
        f"{sorted(names)} alone take traffic",
        lambda: {"status": ready_pods(model)},
        lambda seen: seen == {"status": sorted(names)},
        seconds=60,
    )


def name_of(found: Object) -> str:
    """Name of an object."""
    return str(found["metadata"]["name"])


def _samples(pod: str, *, seconds: float = 60) -> list[Sample]:
    path = f"/api/v1/namespaces/{namespace()}/pods/{pod}:8000/proxy/metrics"
    text = read(path, seconds=seconds)
    lines = "\n".join([line for line in text.splitlines() if line.startswith(_READ)] + [""])
    return [sample for family in text_string_to_metric_families(lines) for sample in family.samples]


def _pod(name: str) -> Object:
    pod = get("pod", name)
    assert pod is not None, f"no pod {name}"
    return pod


def _run_in(pod: str, script: str, *arguments: str) -> str:
    return kubectl("exec", pod, "-n", namespace(), "-c", "engine", "--", "python3", "-c", script, *arguments)
