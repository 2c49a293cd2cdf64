"""KServe's LLMInferenceServices, and InferenceServices whose predictor is vLLM or KServe's own server."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import (
    AUTOSCALED,
    WORKERS,
    Source,
    begin,
    drop_fields,
    metadata_of,
    of_kind,
    replicas_of,
)
from outrider.importing.workload import Workload, an_object, names, objects, text, whole, words_in

_CONTAINER = "kserve-container"
_LLM_CONTAINER = "main"
_STORAGE_URI = "STORAGE_URI"
_MODELS = "/mnt/models"
"""Where KServe puts the weights of ``storageUri`` and of ``model.uri``."""
_FORMATS = ("huggingface", "vllm")
_HF_FLAGS: Mapping[str, str] = {"model_name": "served-model-name", "model_revision": "revision"}
"""Flags of KServe's own server -> those of vLLM."""
_HF_OWN = names(
    """
    backend model_dir task tensor_input_names return_token_type_ids disable_lower_case disable_special_tokens
    http_port grpc_port workers enable_grpc predictor_host return_probabilities disable_log_requests
    max_log_len max_length return_raw_logits
    """
)
_SCALING = ("maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling")
_PREDICTOR: Mapping[str, str] = {
    **dict.fromkeys(_SCALING, AUTOSCALED),
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
_MORE_ARGS = "VLLM_ADDITIONAL_ARGS"
"""A variable that KServe's templates append to the command line of vLLM."""
_SIZES: Mapping[str, str] = {
    "tensor": "tensor-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "data": "data-parallel-size",
}
_LLM_DROPPED: Mapping[str, str] = {
    "router": "Outrider makes a Service; a Gateway, an HTTPRoute or an InferencePool can point at it",
    "prefill": "Outrider runs no separate engines for prefill",
    "scaling": AUTOSCALED,
    "baseRefs": "what these configurations say is not in this file; compare it",
    "storageInitializer": "spec.cache downloads weights",
    "tracing": "set otlp-traces-endpoint in spec.engine.args",
    "labels": "add them to spec.podTemplate.metadata.labels",
    "annotations": "add them to spec.podTemplate.metadata.annotations",
    "criticality": "Outrider's Service treats requests alike",
}


def _inference_services(document: Json) -> Iterator[Workload]:
    spec, findings = begin(document)
    name, namespace = metadata_of(document)
    predictor = an_object(spec.get("predictor"))
    for key in an_object(an_object(document.get("metadata")).get("annotations")):
        findings.dropped(f"annotation {key}", "KServe, Knative or a dashboard reads it; Outrider does not")
    in_front = "Outrider serves the model alone; deploy it in front of the new Service"
    drop_fields(spec, {"transformer": in_front, "explainer": in_front}, findings)
    model, worker = an_object(predictor.get("model")), an_object(predictor.get("workerSpec"))
    engine, uri = _of_model(model, findings) if model else (None, None)
    pod = _with_sizes(_pod(predictor, engine, findings), worker)
    if uri is None:
        uri = _storage_uri(objects(pod.get("containers")), findings)
    if worker:
        findings.check("workerSpec", WORKERS)
    yield Workload(
        "InferenceService",
        name,
        pod,
        findings,
        namespace=namespace,
        replicas=max(1, replicas_of(predictor.get("minReplicas"))),
        nodes=(whole(worker.get("pipelineParallelSize")) or 1) if worker else 1,
        uri=uri,
        served_name=name,
        container=_CONTAINER,
    )


def _pod(predictor: Json, engine: Json | None, findings: Findings) -> Json:
    """The PodSpec that stands in a predictor."""
    pod: Json = {}
    for field, value in predictor.items():
        if field in _PREDICTOR:
            findings.dropped(field, _PREDICTOR[field])
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
    sizes = {f"{name}ParallelSize": flag for name, flag in _SIZES.items() if name != "data"}
    words = [
        f"--{flag}={worker[field]}" for field, flag in sizes.items() if whole(worker.get(field)) is not None
    ]
    containers: list[JsonValue] = [
        {**each, "args": [*_list(each.get("args")), *words]}
        if words and each.get("name") == _CONTAINER
        else each
        for each in objects(pod.get("containers"))
    ]
    return {**pod, "containers": containers}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


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
    elsewhere = "KServe reads it; write the place of the weights into spec.model.uri"
    reasons = {
        "runtimeVersion": "it is a release of KServe's server; spec.engine.version is that of vLLM",
        "protocolVersion": elsewhere,
        "storage": elsewhere,
    }
    own = {f"model.{key}": value for key, value in model.items()}
    drop_fields(own, {f"model.{key}": why for key, why in reasons.items()}, findings)
    args, named = _vllm_args(words_in(model.get("args")), findings)
    # KServe's entry point is not vLLM's.
    drop_fields(own, {"model.command": "Outrider starts vLLM itself"}, findings)
    uri = text(model.get("storageUri"))
    carried = ("env", "envFrom", "resources", "volumeMounts", "image")
    kept = {key: value for key, value in model.items() if key in carried}
    kept["args"] = [*([f"--model={named or _MODELS}"] if named or uri else []), *args]
    return {"name": _CONTAINER, **kept}, None if named else uri


def _vllm_args(words: list[str], findings: Findings) -> tuple[list[str], str | None]:
    """Flags for vLLM, and the model on the hub, of the flags of KServe's server.

    Raises:
        ImportRefused: the server is asked to run without vLLM.
    """
    kept = list[str]()
    named: str | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        head, equals, value = word.partition("=")
        key = head.removeprefix("--").replace("-", "_")
        if not head.startswith("--") or key not in {*_HF_OWN, *_HF_FLAGS, "model_id", "model"}:
            kept.append(word)
            continue
        if not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
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
    for entry in (entry for container in containers for entry in objects(container.get("env"))):
        if entry.get("name") == _STORAGE_URI:
            findings.check(f"env {_STORAGE_URI}", "spec.model.uri has it; the variable is carried, too")
            return text(entry.get("value"))
    return None


def _llm_inference_services(document: Json) -> Iterator[Workload]:
    spec, findings = begin(document)
    name, namespace = metadata_of(document)
    drop_fields(spec, _LLM_DROPPED, findings)
    model, sizes = an_object(spec.get("model")), an_object(spec.get("parallelism"))
    for field in ("lora", "criticality"):
        if model.get(field) is not None:
            findings.dropped(f"model.{field}", "set enable-lora and lora-modules in spec.engine.args")
    uri = text(model.get("uri"))
    yield Workload(
        "LLMInferenceService",
        name,
        _llm_pod(an_object(spec.get("template")), sizes, uri, findings),
        findings,
        namespace=namespace,
        replicas=replicas_of(spec.get("replicas")),
        nodes=_nodes(spec, sizes, findings),
        uri=uri,
        served_name=text(model.get("name")) or name,
        container=_LLM_CONTAINER,
    )


def _nodes(spec: Json, sizes: Json, findings: Findings) -> int:
    if spec.get("worker") is None:
        return 1
    if (whole(sizes.get("data")) or 1) > 1:
        findings.dropped("worker", "data parallelism over several nodes is not available; use spec.replicas")
        return 1
    findings.check("worker", WORKERS)
    return whole(sizes.get("pipeline")) or 1


def _llm_pod(template: Json, sizes: Json, uri: str | None, findings: Findings) -> Json:
    containers = objects(template.get("containers"))
    engine = next((each for each in containers if each.get("name") == _LLM_CONTAINER), None)
    if engine is None:
        engine = containers[0] if len(containers) == 1 else {}
    words = [f"--{flag}={sizes[name]}" for name, flag in _SIZES.items() if whole(sizes.get(name)) is not None]
    words += ["--enable-expert-parallel"] if sizes.get("expert") is True else []
    for name in ("dataLocal", "dataRPCPort"):
        if sizes.get(name) is not None:
            findings.dropped(
                f"parallelism.{name}", "it is for data parallelism over several nodes, which is not available"
            )
    env = objects(engine.get("env"))
    more = next((text(each.get("value")) for each in env if each.get("name") == _MORE_ARGS), None)
    args = words_in(engine.get("args"))
    # A command of the source's own has all of its flags in it.
    if not engine.get("command"):
        args = [*([] if uri is None else [f"--model={_MODELS}"]), *words, *args, *_split(more)]
    kept: Json = {
        **engine,
        "name": _LLM_CONTAINER,
        "args": list(args),
        "env": [each for each in env if each.get("name") != _MORE_ARGS],
    }
    return {**template, "containers": [kept, *(each for each in containers if each is not engine)]}


def _split(more: str | None) -> list[str]:
    try:
        return shlex.split(more or "")
    except ValueError as error:
        raise ImportRefused(f"{_MORE_ARGS} has a quote that does not end; mend it in the source") from error


INFERENCE_SERVICE = Source(
    "InferenceService of KServe", of_kind("InferenceService", group="serving.kserve.io"), _inference_services
)
LLM_INFERENCE_SERVICE = Source(
    "LLMInferenceService of KServe",
    of_kind("LLMInferenceService", group="serving.kserve.io"),
    _llm_inference_services,
)
