"""KServe LLMInferenceServices."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import Source, of_kind
from outrider.importing.sources.workloads import metadata_of, note_labels
from outrider.importing.workload import Workload, an_object, objects, text, whole
from outrider.plan.overlay import Json

_CONTAINER = "main"
_MODELS = "/mnt/models"
_MORE_ARGS = "VLLM_ADDITIONAL_ARGS"
"""A variable that KServe's templates append to the command line of vLLM."""
_SIZES: Mapping[str, str] = {
    "tensor": "tensor-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "data": "data-parallel-size",
}
_DROPPED: Mapping[str, str] = {
    "router": "Outrider makes a Service; a Gateway, an HTTPRoute or an InferencePool can point at it",
    "prefill": "Outrider runs no separate engines for prefill",
    "scaling": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "baseRefs": "what these configurations say is not in this file; compare it",
    "storageInitializer": "spec.cache downloads weights",
    "tracing": "set otlp-traces-endpoint in spec.engine.args",
    "labels": "add them to spec.podTemplate.metadata.labels",
    "annotations": "add them to spec.podTemplate.metadata.annotations",
    "criticality": "Outrider's Service treats requests alike",
}


def _services(document: Json) -> Iterator[Workload]:
    name, namespace = metadata_of(document)
    spec = an_object(document.get("spec"))
    findings = Findings()
    note_labels(document, findings)
    for field, why in _DROPPED.items():
        if spec.get(field) is not None:
            findings.dropped(field, why)
    model = an_object(spec.get("model"))
    for field in ("lora", "criticality"):
        if model.get(field) is not None:
            findings.dropped(f"model.{field}", "set enable-lora and lora-modules in spec.engine.args")
    uri = text(model.get("uri"))
    sizes = an_object(spec.get("parallelism"))
    pod = _pod(an_object(spec.get("template")), sizes, uri, findings)
    nodes = _nodes(spec, sizes, findings)
    replicas = whole(spec.get("replicas"))
    yield Workload(
        "LLMInferenceService",
        name,
        pod,
        findings,
        namespace=namespace,
        replicas=1 if replicas is None else replicas,
        nodes=nodes,
        uri=uri,
        served_name=text(model.get("name")) or name,
        container=_CONTAINER,
    )


def _nodes(spec: Json, sizes: Json, findings: Findings) -> int:
    if spec.get("worker") is None:
        return 1
    nodes = whole(sizes.get("pipeline")) or 1
    if (whole(sizes.get("data")) or 1) > 1:
        findings.dropped(
            "worker",
            "data parallelism over several nodes is not available; use spec.replicas",
        )
        return 1
    findings.check("worker", "Outrider makes workers of the leader's pod; see that it suits both")
    return nodes


def _pod(template: Json, sizes: Json, uri: str | None, findings: Findings) -> Json:
    containers = objects(template.get("containers"))
    engine = next((each for each in containers if each.get("name") == _CONTAINER), None)
    if engine is None and len(containers) == 1:
        engine = containers[0]
    others: list[JsonValue] = [each for each in containers if each is not engine]
    words = [f"--{flag}={sizes[name]}" for name, flag in _SIZES.items() if whole(sizes.get(name)) is not None]
    words += ["--enable-expert-parallel"] if sizes.get("expert") is True else []
    for name in ("dataLocal", "dataRPCPort"):
        if sizes.get(name) is not None:
            findings.dropped(
                f"parallelism.{name}", "it is for data parallelism over several nodes, which is not available"
            )
    env = objects((engine or {}).get("env"))
    more = next((text(each.get("value")) for each in env if each.get("name") == _MORE_ARGS), None)
    own = (engine or {}).get("args")
    own_words = [str(each) for each in own] if isinstance(own, list) else []
    kept: Json = {key: value for key, value in (engine or {}).items() if key not in ("env", "args")}
    kept["name"] = _CONTAINER
    # A command of the source's own has all of its flags in it.
    if not kept.get("command"):
        own_words = [*([] if uri is None else [f"--model={_MODELS}"]), *words, *own_words, *_split(more)]
    kept["args"] = list(own_words)
    kept["env"] = [each for each in env if each.get("name") != _MORE_ARGS]
    return {**template, "containers": [kept, *others]}


def _split(more: str | None) -> list[str]:
    try:
        return shlex.split(more or "")
    except ValueError as error:
        raise ImportRefused(f"{_MORE_ARGS} has a quote that does not end; mend it in the source") from error


LLM_INFERENCE_SERVICE = Source(
    "LLMInferenceService of KServe", of_kind("LLMInferenceService", group="serving.kserve.io"), _services
)
