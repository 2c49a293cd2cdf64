"""Models of KubeAI with the engine vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import AUTOSCALED, Source, begin, drop_fields, metadata_of, of_kind
from outrider.importing.workload import Workload, an_object, text, whole, words_in

_SCALING = ("minReplicas", "maxReplicas", "autoscalingDisabled", "targetRequests", "scaleDownDelaySeconds")
_DROPPED: Mapping[str, str] = {
    **dict.fromkeys(_SCALING, AUTOSCALED),
    "loadBalancing": "KubeAI's proxy reads it; Outrider makes a Service",
    "adapters": "set enable-lora and lora-modules in spec.engine.args",
    "files": "mount a ConfigMap in spec.podTemplate",
    "owner": "KubeAI's API shows it",
    "features": "KubeAI's API shows it",
    "cacheProfile": "spec.cache keeps downloaded weights; give it a claim or a size",
}
_ACCELERATORS = ("nvidia", "amd", "gh200", "gpu")


def _models(document: Json) -> Iterator[Workload]:
    spec, findings = begin(document)
    name, namespace = metadata_of(document)
    engine = text(spec.get("engine")) or "VLLM"
    if engine.lower() != "vllm":
        raise ImportRefused(f"its engine is {engine}; Outrider serves with vLLM")
    drop_fields(spec, _DROPPED, findings, unset=(None, [], {}))
    container: Json = {
        "name": "server",
        "args": [f"--served-model-name={name}", *words_in(spec.get("args"))],
        "env": [{"name": key, "value": str(value)} for key, value in an_object(spec.get("env")).items()],
        "resources": _resources(spec.get("resourceProfile"), findings),
    }
    if text(spec.get("image")) is not None:
        container["image"] = spec["image"]
    if spec.get("envFrom"):
        container["envFrom"] = spec["envFrom"]
    pod: Json = {"containers": [container]}
    if text(spec.get("priorityClassName")) is not None:
        pod["priorityClassName"] = spec["priorityClassName"]
    url = text(spec.get("url"))
    if url is None:
        raise ImportRefused("it has no url; write one such as hf://organisation/name")
    yield Workload(
        "Model",
        name,
        pod,
        findings,
        namespace=namespace,
        replicas=max(1, whole(spec.get("replicas")) or whole(spec.get("minReplicas")) or 1),
        uri=url,
        container="server",
    )


def _resources(profile: JsonValue, findings: Findings) -> Json:
    """``nvidia-gpu-h100:2`` is two GPUs; what else a profile says stands in KubeAI's own settings."""
    name, _, count = (text(profile) or "").partition(":")
    if not name:
        return {}
    findings.dropped(
        f"resourceProfile {name}",
        "what else it says stands in KubeAI's settings; set spec.resources and spec.podTemplate",
    )
    if "cpu" in name.split("-"):
        return {"requests": {"cpu": whole(count) or 1}}
    vendor = "amd.com/gpu" if name.startswith("amd") else "nvidia.com/gpu"
    if not any(part in name for part in _ACCELERATORS):
        findings.check(
            "spec.resources", f"the profile's name does not say its devices; Outrider wrote {vendor}"
        )
    return {"limits": {vendor: whole(count) or 1}}


KUBEAI = Source("Model of KubeAI", of_kind("Model", group="kubeai.org"), _models)
