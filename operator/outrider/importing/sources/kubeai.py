"""Models of KubeAI with the engine vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import Source, of_kind
from outrider.importing.sources.workloads import metadata_of, note_labels
from outrider.importing.workload import Workload, an_object, text, whole
from outrider.plan.overlay import Json

_DROPPED: Mapping[str, str] = {
    "minReplicas": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "maxReplicas": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "autoscalingDisabled": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "targetRequests": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "scaleDownDelaySeconds": "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md",
    "loadBalancing": "KubeAI's proxy reads it; Outrider makes a Service",
    "adapters": "set enable-lora and lora-modules in spec.engine.args",
    "files": "mount a ConfigMap in spec.podTemplate",
    "owner": "KubeAI's API shows it",
    "features": "KubeAI's API shows it",
    "cacheProfile": "spec.cache keeps downloaded weights; give it a claim or a size",
}
_ACCELERATORS = ("nvidia", "amd", "gh200", "gpu")


def _models(document: Json) -> Iterator[Workload]:
    name, namespace = metadata_of(document)
    spec = an_object(document.get("spec"))
    engine = text(spec.get("engine")) or "VLLM"
    if engine.lower() != "vllm":
        raise ImportRefused(f"its engine is {engine}; Outrider serves with vLLM")
    findings = Findings()
    note_labels(document, findings)
    for field, why in _DROPPED.items():
        if spec.get(field) not in (None, [], {}):
            findings.dropped(field, why)
    args = spec.get("args")
    words = [f"--served-model-name={name}", *(str(each) for each in (args if isinstance(args, list) else []))]
    container: Json = {
        "name": "server",
        "args": list(words),
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
    yield Workload(
        "Model",
        name,
        pod,
        findings,
        namespace=namespace,
        replicas=max(1, whole(spec.get("replicas")) or whole(spec.get("minReplicas")) or 1),
        uri=_uri(text(spec.get("url"))),
        container="server",
    )


def _uri(url: str | None) -> str:
    if url is None:
        raise ImportRefused("it has no url; write one such as hf://organisation/name")
    return url


def _resources(profile: JsonValue, findings: Findings) -> Json:
    """``nvidia-gpu-h100:2`` is two GPUs; what else a profile says stands in KubeAI's own settings."""
    name, _, count = (text(profile) or "").partition(":")
    if not name:
        return {}
    findings.dropped(
        f"resourceProfile {name}",
        "what else it says stands in KubeAI's settings; set spec.resources and spec.podTemplate",
    )
    if "cpu" in name.split("-") or name == "cpu":
        return {"requests": {"cpu": whole(count) or 1}}
    vendor = "amd.com/gpu" if name.startswith("amd") else "nvidia.com/gpu"
    if not any(part in name for part in _ACCELERATORS):
        findings.check(
            "spec.resources", f"the profile's name does not say its devices; Outrider wrote {vendor}"
        )
    return {"limits": {vendor: whole(count) or 1}}


KUBEAI = Source("Model of KubeAI", of_kind("Model", group="kubeai.org"), _models)
