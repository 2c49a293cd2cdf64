"""Helm values of the vLLM production stack: one engine for each entry of ``servingEngineSpec.modelSpec``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import AUTOSCALED, Source, replicas_of
from outrider.importing.workload import Workload, an_object, names, objects, text, words_in

_VALUES: Mapping[str, str] = {
    "maxModelLen": "max-model-len",
    "dtype": "dtype",
    "tensorParallelSize": "tensor-parallel-size",
    "pipelineParallelSize": "pipeline-parallel-size",
    "maxNumSeqs": "max-num-seqs",
    "gpuMemoryUtilization": "gpu-memory-utilization",
    "maxLoras": "max-loras",
    "runner": "runner",
    "convert": "convert",
}
"""Key of vllmConfig -> flag with a value."""
_SWITCHES: Mapping[str, str] = {
    "enablePrefixCaching": "enable-prefix-caching",
    "enableChunkedPrefill": "enable-chunked-prefill",
}
_CONFIG = frozenset({*_VALUES, *_SWITCHES, "extraArgs", "v0", "v1"})
_ELSEWHERE = names(
    """
    name enabled repository tag imagePullSecret modelURL modelRevision replicaCount resources requestCPU
    requestMemory requestGPU requestGPUType limitCPU limitMemory pvcStorage pvcAccessMode storageClass
    pvcExistingClaimName extraVolumes extraVolumeMounts vllmConfig hf_token env envFromSecret
    nodeSelectorTerms affinity tolerations shmSize enableLoRA enableTool toolCallParser serviceAccountName
    priorityClassName runtimeClassName podAnnotations podLabels raySpec
    """
)
"""Fields of an engine that are carried."""
_DROPPED: Mapping[str, str] = {
    "lmcacheConfig": "set kv-transfer-config in spec.engine.args, with an image that has LMCache",
    "keda": AUTOSCALED,
    "initContainer": "add it to initContainers in spec.podTemplate",
    "chatTemplate": "mount it in spec.podTemplate, and set chat-template in spec.engine.args",
    "nodeName": "it binds pods past the scheduler; use nodeSelector in spec.podTemplate",
}
_OTHERWISE = "no field of the spec has it; look at spec.podTemplate"
_DATA = "/data"
_SHARED = ("runtimeClassName", "schedulerName")
_SHARED_ELSEWHERE = names(
    """
    labels modelSpec enableEngine vllmApiKey env tolerations imagePullPolicy containerPort servicePort
    securityContext containerSecurityContext strategy
    """
)
_EMPTY: tuple[JsonValue, ...] = (None, "", {}, [])


def _engines(document: Json) -> Iterator[Workload]:
    shared = an_object(document.get("servingEngineSpec"))
    entries = [each for each in objects(shared.get("modelSpec")) if each.get("enabled") is not False]
    if not entries:
        raise ImportRefused("servingEngineSpec.modelSpec has no engine; add one, or name the file that has")
    for entry in entries:
        yield _engine(entry, shared, document)


def _engine(entry: Json, shared: Json, document: Json) -> Workload:
    findings = Findings()
    name = text(entry.get("name")) or "model"
    if an_object(entry.get("raySpec")).get("enabled") is True:
        findings.dropped(
            "raySpec", "Outrider spreads a replica over nodes without Ray; set spec.parallelism.nodes"
        )
    for field, value in entry.items():
        if field not in _ELSEWHERE and value not in _EMPTY:
            findings.dropped(field, _DROPPED.get(field, _OTHERWISE))
    _note_shared(shared, document, findings)
    pod, claims = _pod(entry, shared, findings)
    return Workload(
        "modelSpec",
        name,
        pod,
        findings,
        labels=an_object(entry.get("podLabels")),
        annotations=an_object(entry.get("podAnnotations")),
        replicas=replicas_of(entry.get("replicaCount")),
        container="vllm",
        claims=claims,
    )


def _note_shared(shared: Json, document: Json, findings: Findings) -> None:
    beside = ("routerSpec", "cacheserverSpec", "loraController", "loraAdapters", "sharedPvcStorage")
    for field in (*beside, "gatewayInferenceExtension"):
        if an_object(document.get(field)):
            findings.dropped(
                field,
                "it runs beside the engines; keep it in the chart, and point its router at the new Service",
            )
    for field, value in shared.items():
        if field not in {*_SHARED, *_SHARED_ELSEWHERE} and value not in _EMPTY:
            findings.dropped(f"servingEngineSpec.{field}", "Outrider makes it, or has no field for it")


def _pod(entry: Json, shared: Json, findings: Findings) -> tuple[Json, dict[str, Json]]:
    mounts, volumes, claims = _volumes(entry)
    container: Json = {
        "name": "vllm",
        "args": list(_args(entry, findings)),
        "env": _env(entry, shared, findings),
        "resources": _resources(entry),
        "volumeMounts": mounts,
    }
    repository, tag = text(entry.get("repository")), entry.get("tag")
    if repository is not None:
        container["image"] = f"{repository}:{tag}" if tag not in (None, "") else repository
    secret = text(an_object(entry.get("envFromSecret")).get("name"))
    if secret is not None:
        container["envFrom"] = [{"secretRef": {"name": secret}}]
    if shared.get("containerSecurityContext"):
        container["securityContext"] = shared["containerSecurityContext"]
    if text(shared.get("imagePullPolicy")) is not None:
        container["imagePullPolicy"] = shared["imagePullPolicy"]
    pod: Json = {"containers": [container], "volumes": volumes}
    if shared.get("securityContext"):
        pod["securityContext"] = shared["securityContext"]
    for field in (*_SHARED, "serviceAccountName", "priorityClassName", "affinity"):
        value = entry.get(field) or shared.get(field)
        if value:
            pod[field] = value
    if text(entry.get("imagePullSecret")) is not None:
        pod["imagePullSecrets"] = [{"name": entry["imagePullSecret"]}]
    tolerations: list[JsonValue] = [*objects(shared.get("tolerations")), *objects(entry.get("tolerations"))]
    if tolerations:
        pod["tolerations"] = tolerations
    terms = objects(entry.get("nodeSelectorTerms"))
    if terms and "affinity" not in pod:
        wanted: Json = {"nodeSelectorTerms": list(terms)}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    return pod, claims


def _args(entry: Json, findings: Findings) -> Sequence[str]:
    model = text(entry.get("modelURL"))
    words = [] if model is None else [f"--model={model}"]
    if text(entry.get("modelRevision")) is not None:
        words.append(f"--revision={entry['modelRevision']}")
    words += ["--enable-lora"] if entry.get("enableLoRA") is True else []
    words += ["--enable-auto-tool-choice"] if entry.get("enableTool") is True else []
    if text(entry.get("toolCallParser")) is not None:
        words.append(f"--tool-call-parser={entry['toolCallParser']}")
    config = an_object(entry.get("vllmConfig"))
    for key, flag in _SWITCHES.items():
        if isinstance(config.get(key), bool):
            words.append(f"--{flag}" if config[key] else f"--no-{flag}")
    words += [f"--{flag}={config[key]}" for key, flag in _VALUES.items() if config.get(key) not in (None, "")]
    words += words_in(config.get("extraArgs"))
    for key in config:
        if key not in _CONFIG:
            findings.dropped(
                f"vllmConfig.{key}", "Outrider does not know it; set the flag in spec.engine.args"
            )
    return words


def _env(entry: Json, shared: Json, findings: Findings) -> list[JsonValue]:
    env: list[JsonValue] = [*objects(shared.get("env")), *objects(entry.get("env"))]
    stored = text(entry.get("pvcExistingClaimName")) or entry.get("pvcStorage") not in (None, "")
    if stored and not (text(entry.get("modelURL")) or "").startswith("/"):
        env.insert(0, {"name": "HF_HOME", "value": _DATA})  # The chart sets it.
    for holder, field, variable, remedy in (
        (entry, "hf_token", "HF_TOKEN", "spec.model.secretRef"),
        (shared, "vllmApiKey", "VLLM_API_KEY", "VLLM_API_KEY with a secretKeyRef in spec.podTemplate"),
    ):
        value = holder.get(field)
        reference = an_object(value)
        name, key = text(reference.get("secretName")), text(reference.get("secretKey"))
        if isinstance(value, str) and value:
            findings.dropped(
                field, f"its value stands in the values in plain text; put it into a Secret, and set {remedy}"
            )
        elif name is not None and key is not None:
            env.append({"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}})
    return env


def _resources(entry: Json) -> Json:
    given = an_object(entry.get("resources"))
    if given:
        return given
    gpu_kind = text(entry.get("requestGPUType")) or "nvidia.com/gpu"
    gpus = entry.get("requestGPU")
    found: Json = {}
    for kind, field in (("requests", "request"), ("limits", "limit")):
        amounts = {"cpu": entry.get(f"{field}CPU"), "memory": entry.get(f"{field}Memory"), gpu_kind: gpus}
        kept: Json = {name: amount for name, amount in amounts.items() if amount not in (None, "", 0)}
        if kept:
            found[kind] = kept
    return found


def _volumes(entry: Json) -> tuple[list[JsonValue], list[JsonValue], dict[str, Json]]:
    """Mounts, volumes, and claims that the chart makes."""
    mounts: list[JsonValue] = list(objects(entry.get("extraVolumeMounts")))
    volumes: list[JsonValue] = list(objects(entry.get("extraVolumes")))
    claims = dict[str, Json]()
    existing, size = text(entry.get("pvcExistingClaimName")), entry.get("pvcStorage")
    if existing is not None or size not in (None, ""):
        mounts.append({"name": "storage", "mountPath": _DATA})
    if existing is not None:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": existing}})
    elif size not in (None, ""):
        claim: Json = {"resources": {"requests": {"storage": str(size)}}}
        if text(entry.get("storageClass")) is not None:
            claim["storageClassName"] = entry["storageClass"]
        if isinstance(entry.get("pvcAccessMode"), list):
            claim["accessModes"] = entry["pvcAccessMode"]
        claims["storage"] = claim
    if text(entry.get("shmSize")) is not None:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": entry["shmSize"]}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    return mounts, volumes, claims


PRODUCTION_STACK = Source(
    "values of the vLLM production stack",
    # Kubernetes has no object without a kind.
    lambda document: "kind" not in document and isinstance(document.get("servingEngineSpec"), dict),
    _engines,
)
