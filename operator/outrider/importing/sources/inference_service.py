"""KServe InferenceServices whose predictor is vLLM, or KServe's server for Hugging Face models around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import Source, of_kind
from outrider.importing.sources.workloads import metadata_of, note_labels
from outrider.importing.workload import Workload, an_object, objects, text, whole
from outrider.plan.overlay import Json

_CONTAINER = "kserve-container"
_STORAGE_URI = "STORAGE_URI"
_MODELS = "/mnt/models"
"""Where KServe puts the weights of ``storageUri``."""
_FORMATS = ("huggingface", "vllm")
_HF_FLAGS: Mapping[str, str] = {"model_name": "served-model-name", "model_revision": "revision"}
"""Flags of KServe's own server -> those of vLLM."""
_HF_OWN = frozenset(
    {"backend", "model_dir", "task", "tensor_input_names", "return_token_type_ids", "disable_lower_case"}
    | {"disable_special_tokens", "http_port", "grpc_port", "workers", "enable_grpc", "predictor_host"}
    | {"return_probabilities", "disable_log_requests", "max_log_len", "max_length", "return_raw_logits"}
)
_SCALING: Mapping[str, str] = {
    "maxReplicas": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "scaleTarget": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "scaleMetric": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "scaleMetricType": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "autoScaling": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "containerConcurrency": "vLLM queues requests; set max-num-seqs in spec.engine.args",
    "timeout": "it is KServe's; set it in your Gateway",
    "canaryTrafficPercent": "it is KServe's; an HTTPRoute can split the traffic",
    "batcher": "vLLM batches requests itself",
    "logger": "it is KServe's",
    "deploymentStrategy": "spec.rollout says how engines roll out",
    "labels": "add them to spec.podTemplate.metadata",
    "annotations": "add them to spec.podTemplate.metadata",
}
"""Fields of a predictor that do not describe its pod."""


def _services(document: Json) -> Iterator[Workload]:
    name, namespace = metadata_of(document)
    spec = an_object(document.get("spec"))
    predictor = an_object(spec.get("predictor"))
    findings = Findings()
    note_labels(document, findings)
    for key in an_object(an_object(document.get("metadata")).get("annotations")):
        findings.dropped(f"annotation {key}", "KServe, Knative or a dashboard reads it; Outrider does not")
    for field in ("transformer", "explainer"):
        if spec.get(field) is not None:
            findings.dropped(field, "Outrider serves the model alone; deploy it in front of the new Service")
    model, worker = an_object(predictor.get("model")), an_object(predictor.get("workerSpec"))
    engine, uri = _of_model(model, findings) if model else (None, None)
    pod = _with_sizes(_pod(predictor, engine, findings), worker)
    if uri is None:
        uri = _storage_uri(objects(pod.get("containers")), findings)
    if worker:
        findings.check("workerSpec", "Outrider makes workers of the leader's pod; see that it suits both")
    least = whole(predictor.get("minReplicas"))
    yield Workload(
        "InferenceService",
        name,
        pod,
        findings,
        namespace=namespace,
        replicas=1 if least is None else max(1, least),
        nodes=(whole(worker.get("pipelineParallelSize")) or 1) if worker else 1,
        uri=uri,
        served_name=name,
        container=_CONTAINER,
    )


def _pod(predictor: Json, engine: Json | None, findings: Findings) -> Json:
    """The PodSpec that stands in a predictor."""
    pod: Json = {}
    for field, value in predictor.items():
        if field in _SCALING:
            findings.dropped(field, _SCALING[field])
        elif field not in ("model", "workerSpec", "minReplicas", "containers"):
            pod[field] = value
    containers: list[JsonValue] = list(objects(predictor.get("containers")))
    if engine is not None:
        own = [each for each in objects(containers) if each.get("name") == _CONTAINER]
        others = [each for each in containers if each not in own]
        containers = [{**(own[0] if own else {}), **engine}, *others]
    if not containers:
        raise ImportRefused(
            "its predictor has neither a model of the format huggingface or vllm, nor containers"
        )
    return {**pod, "containers": containers}


def _with_sizes(pod: Json, worker: Json) -> Json:
    """The pod with the flags that KServe adds for several nodes to every container that may be the engine."""
    sizes = [
        ("tensor-parallel-size", "tensorParallelSize"),
        ("pipeline-parallel-size", "pipelineParallelSize"),
    ]
    words = [f"--{flag}={worker[field]}" for flag, field in sizes if whole(worker.get(field)) is not None]
    containers: list[JsonValue] = []
    for each in objects(pod.get("containers")):
        args = each.get("args")
        engine = words and each.get("name") == _CONTAINER
        containers.append(
            {**each, "args": [*(args if isinstance(args, list) else []), *words]} if engine else each
        )
    return {**pod, "containers": containers}


def _of_model(model: Json, findings: Findings) -> tuple[Json, str | None]:
    """The engine's container, and the place of the weights, of ``predictor.model``."""
    format_name = (text(an_object(model.get("modelFormat")).get("name")) or "").lower()
    runtime = (text(model.get("runtime")) or "").lower()
    if not any(known in f"{format_name} {runtime}" for known in _FORMATS):
        raise ImportRefused(
            f"its model format is {format_name or 'not named'}; Outrider serves huggingface and vllm, by vLLM"
        )
    if runtime:
        findings.check(
            "model.runtime", "flags and variables of the ServingRuntime are not in this file; compare them"
        )
    if model.get("runtimeVersion") is not None:
        findings.dropped(
            "model.runtimeVersion", "it is a release of KServe's server; spec.engine.version is that of vLLM"
        )
    for field in ("protocolVersion", "storage"):
        if model.get(field) is not None:
            findings.dropped(
                f"model.{field}", "KServe reads it; write the place of the weights into spec.model.uri"
            )
    args, named = _vllm_args(model.get("args"), findings)
    uri = text(model.get("storageUri"))
    words: list[JsonValue] = [f"--model={named or _MODELS}" if named or uri else None, *args]
    kept = {
        key: value
        for key, value in model.items()
        if key in ("env", "envFrom", "resources", "volumeMounts", "image", "command")
    }
    kept["args"] = [word for word in words if word is not None]
    # KServe's entry point is not vLLM's.
    if kept.pop("command", None) is not None:
        findings.dropped("model.command", "Outrider starts vLLM itself")
    return {"name": _CONTAINER, **kept}, None if named else uri


def _vllm_args(given: JsonValue, findings: Findings) -> tuple[list[str], str | None]:
    """Flags for vLLM, and the model on the hub, of the flags of KServe's server.

    Raises:
        ImportRefused: the server is asked to run without vLLM.
    """
    words = [str(each) for each in given] if isinstance(given, list) else []
    kept = list[str]()
    named: str | None = None
    index = 0
    while index < len(words):
        head, equals, value = words[index].partition("=")
        index += 1
        key = re.sub("-", "_", head.removeprefix("--"))
        if not head.startswith("--") or (
            key not in _HF_OWN and key not in _HF_FLAGS and key not in ("model_id", "model")
        ):
            kept.append(words[index - 1])
            continue
        if not equals and index < len(words) and not words[index].startswith("--"):
            value, index = words[index], index + 1
        if key == "backend" and value in ("huggingface", "hf"):
            raise ImportRefused(
                "it asks KServe's server for the backend huggingface; Outrider serves with vLLM"
            )
        if key == "model_id" or (key == "model" and not value.startswith(_MODELS)):
            named = value
        elif key in _HF_FLAGS:
            kept.append(f"--{_HF_FLAGS[key]}={value}")
        elif key not in ("backend", "model_dir", "model"):
            findings.dropped(head, "it is a flag of KServe's server, and not of vLLM")
    return kept, named


def _storage_uri(containers: list[Json], findings: Findings) -> str | None:
    """What the variable STORAGE_URI of a container names: KServe fetches it."""
    for container in containers:
        for entry in objects(container.get("env")):
            if entry.get("name") == _STORAGE_URI:
                findings.check(f"env {_STORAGE_URI}", "spec.model.uri has it; the variable is carried, too")
                return text(entry.get("value"))
    return None


INFERENCE_SERVICE = Source(
    "InferenceService of KServe", of_kind("InferenceService", group="serving.kserve.io"), _services
)
