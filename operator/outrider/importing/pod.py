"""``spec.podTemplate`` and ``spec.resources``: what of a source's pod is carried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath

from pydantic import JsonValue, TypeAdapter, ValidationError

from outrider.api.json_object import Json
from outrider.api.quantity import Quantity
from outrider.importing.environment import without_secrets
from outrider.importing.findings import Findings, holds_secret
from outrider.importing.weights import Mount
from outrider.importing.workload import Workload, an_object, objects, text
from outrider.plan.names import CONTAINER, HOME, OWNED_FOLDERS, PLUGIN_CONTAINER

_MADE: Mapping[str, str] = {
    **dict.fromkeys(
        ("livenessProbe", "readinessProbe", "startupProbe"),
        "Outrider makes the probes; their times can be set in spec.podTemplate",
    ),
    "ports": "Outrider opens spec.engine.port, and makes a Service with port 80 for it",
    "workingDir": "Outrider starts the engine in the image's own folder; use absolute paths in flags",
    "terminationMessagePath": "Outrider reads the last log lines of an engine that ended",
    "terminationMessagePolicy": "Outrider reads the last log lines of an engine that ended",
}
"""Fields of the engine's container that Outrider sets itself."""
_ELSEWHERE = frozenset(
    {"name", "image", "command", "args", "env", "resources", "volumeMounts", "lifecycle", "securityContext"}
)
_QUIET = frozenset({"stdin", "tty", "restartPolicy"})
_POD_MADE: Mapping[str, str] = {
    "terminationGracePeriodSeconds": "it follows from shutdown-timeout; set that in spec.engine.args",
    "restartPolicy": "engines always restart",
    "subdomain": "Outrider's Service finds the pods",
    "hostname": "Outrider's Service finds the pods",
    "nodeName": "it binds pods past the scheduler; use nodeSelector in spec.podTemplate",
}
_CLAIM_OF_EACH_POD = "the source makes a claim for each pod; make one claim, and mount it in spec.podTemplate"
_PLANNED_VOLUMES = frozenset({"schedule", "shm", "tmp", "home", PLUGIN_CONTAINER})
_PLANNED_PREFIXES = ("models-", "images-")
_SHARED_MEMORY = "/dev/shm"
_METRICS = "prometheus.io/"
_OWN_LABELS = ("app.kubernetes.io/", "outrider.dev/", "helm.sh/")
_QUANTITY: TypeAdapter[int | str] = TypeAdapter(Quantity)


@dataclass(frozen=True, slots=True)
class Taken:
    """What other fields of the spec already say."""

    mounts: Sequence[Mount] = ()  # in whose place Outrider makes its own
    environment: Sequence[JsonValue] = ()
    claims: bool = False  # `spec.resources.claims` has the pod's resource claims
    texts: Sequence[str] = ()  # flags and variables, in which paths of mounts may stand


def pod_template(workload: Workload, container: Json, taken: Taken) -> Json:
    """The overlay; empty where nothing is left to say."""
    findings = workload.findings
    engine = _engine(container, taken, findings)
    mounted, volumes = _volumes(workload, container, taken)
    if mounted:
        engine["volumeMounts"] = mounted
    beside = _beside(workload, container, findings)
    fields: Json = {
        **_pod(workload.pod, findings, claims=taken.claims),
        "containers": [*([{"name": CONTAINER, **engine}] if engine else []), *beside["containers"]],
        "initContainers": beside["initContainers"],
        "volumes": volumes,
    }
    spec: Json = {name: value for name, value in fields.items() if value != []}
    parts: Json = {"metadata": _metadata(workload), "spec": spec}
    return {name: part for name, part in parts.items() if part}


def _engine(container: Json, taken: Taken, findings: Findings) -> Json:
    engine: Json = {}
    for name, value in container.items():
        if name in _ELSEWHERE or name in _QUIET:
            continue
        if name in _MADE:
            findings.dropped(name, _MADE[name])
        else:
            engine[name] = value
    context = an_object(container.get("securityContext"))
    security = _security(context, "the container's securityContext", findings)
    lifecycle = dict(an_object(container.get("lifecycle")))
    if lifecycle.pop("preStop", None) is not None:
        findings.dropped("lifecycle.preStop", "Outrider drains an engine before it ends")
    own: Json = {"env": list(taken.environment), "securityContext": security, "lifecycle": lifecycle}
    return engine | {name: value for name, value in own.items() if value}


def _security(context: Json, where: str, findings: Findings) -> Json:
    """A security context without what makes the engine the node's root."""
    kept = dict(context)
    refused = {
        "privileged": kept.get("privileged") is True,
        "runAsUser": kept.get("runAsUser") == 0,
        "runAsGroup": kept.get("runAsGroup") == 0,
        "runAsNonRoot": kept.get("runAsNonRoot") is False,
    }
    for name, is_root in refused.items():
        if is_root:
            findings.dropped(f"{name} in {where}", "Outrider runs engines as user 1000, without privileges")
        if is_root or (name == "privileged" and name in kept):
            del kept[name]
    return kept


def _volumes(workload: Workload, container: Json, taken: Taken) -> tuple[list[JsonValue], list[JsonValue]]:
    """Mounts of the engine, and the volumes of the pod."""
    findings, pod = workload.findings, workload.pod
    replaced = {mount.path for mount in taken.mounts if not _mentioned(mount.path, taken.texts)}
    shared: list[JsonValue] = []
    mounted: list[JsonValue] = []
    used = set[str]()
    sources = {str(each.get("name")): each for each in objects(pod.get("volumes"))}
    for each in objects(container.get("volumeMounts")):
        path, name = text(each.get("mountPath")), text(each.get("name"))
        if path is None or name is None or path in replaced:
            continue
        source = sources.get(name, {})
        if normpath(path) == _SHARED_MEMORY:
            if "emptyDir" in source:
                shared.append({"name": "shm", "emptyDir": source["emptyDir"]})
            else:
                findings.dropped(f"volume {name}", "Outrider makes /dev/shm")
        elif any(_overlaps(path, folder) for folder in OWNED_FOLDERS):
            findings.dropped(
                f"volume {name} at {path}", "the folder belongs to Outrider; mount it somewhere else"
            )
        elif name in workload.claims:
            findings.dropped(
                f"volume {name} at {path}",
                _CLAIM_OF_EACH_POD,
            )
        else:
            if path == "/root" or path.startswith("/root/"):
                findings.check(
                    f"volume {name} at {path}",
                    f"user 1000, as which engines run, cannot read /root; mount it below {HOME}",
                )
            mounted.append({**each, "name": _volume_name(name)})
            used.add(name)
    for other in [*objects(pod.get("containers")), *objects(pod.get("initContainers"))]:
        if other is not container:
            used |= {str(each.get("name")) for each in objects(other.get("volumeMounts"))}
    volumes = [{**source, "name": _volume_name(name)} for name, source in sources.items() if name in used]
    own: list[JsonValue] = [*shared[:1], *volumes]
    return mounted, own


def _volume_name(name: str) -> str:
    """The source's own, unless Outrider has a volume of that name."""
    return f"own-{name}" if name in _PLANNED_VOLUMES or name.startswith(_PLANNED_PREFIXES) else name


def _mentioned(path: str, texts: Sequence[str]) -> bool:
    return any(path.rstrip("/") + "/" in each or each == path for each in texts)


def _overlaps(path: str, folder: str) -> bool:
    one, other = ([part for part in normpath(f"/{each}").split("/") if part] for each in (path, folder))
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def _pod(pod: Json, findings: Findings, *, claims: bool) -> Json:
    spec: Json = {}
    for name, value in pod.items():
        if name in ("containers", "initContainers", "volumes") or value in (None, [], {}):
            continue
        if name == "securityContext":
            security = _security(an_object(value), "the pod's securityContext", findings)
            if security:
                spec[name] = security
        elif (name == "resourceClaims" and claims) or (name == "restartPolicy" and value == "Always"):
            continue
        elif name in _POD_MADE:
            findings.dropped(name, _POD_MADE[name])
        elif name == "serviceAccount" and "serviceAccountName" in pod:
            continue
        else:
            spec[name] = value
    if "topologySpreadConstraints" in spec or "podAntiAffinity" in an_object(spec.get("affinity")):
        findings.check(
            "affinity and topologySpreadConstraints",
            "their label selectors name labels of the old pods; Outrider's pods have outrider.dev/model",
        )
    return spec


def _beside(workload: Workload, container: Json, findings: Findings) -> dict[str, list[JsonValue]]:
    """The other containers, with their volumes under the names that Outrider leaves free."""
    found: dict[str, list[JsonValue]] = {"containers": [], "initContainers": []}
    for kind in found:
        for other in objects(workload.pod.get(kind)):
            if other is container:
                continue
            name = text(other.get("name")) or "?"
            if kind == "initContainers" and name == PLUGIN_CONTAINER:
                findings.dropped(f"container {name}", "Outrider brings its plugin to the pod itself")
                continue
            if kind == "containers" and (name == CONTAINER or text(other.get("image")) is None):
                findings.dropped(
                    f"container {name}", "it has the engine's name or no image; add it to spec.podTemplate"
                )
                continue
            findings.check(
                f"container {name}",
                "it runs as user 1000, as the engine does; see that its image allows that",
            )
            found[kind].append(_with_carried_mounts(without_secrets(other, findings), workload))
    return found


def _with_carried_mounts(container: Json, workload: Workload) -> Json:
    """A container beside the engine, without the mounts of volumes that the new pod does not have."""
    kept: list[JsonValue] = []
    for each in objects(container.get("volumeMounts")):
        name = str(each.get("name"))
        if name in workload.claims:
            where = f"at {each.get('mountPath')} of container {container.get('name')}"
            workload.findings.dropped(f"volume {name} {where}", _CLAIM_OF_EACH_POD)
        else:
            kept.append({**each, "name": _volume_name(name)})
    fields = {name: kept if name == "volumeMounts" else value for name, value in container.items()}
    return {name: value for name, value in fields.items() if name != "volumeMounts" or kept}


def _metadata(workload: Workload) -> Json:
    findings, labels, annotations = workload.findings, Json(), Json()
    for key, value in workload.labels.items():
        if key in workload.selected_by:
            findings.dropped(
                f"label {key}",
                "the old Service and Deployment select pods by it; new pods must not have it",
            )
        elif key.startswith(_OWN_LABELS) or not isinstance(value, str):
            findings.dropped(f"label {key}", "Outrider or Helm sets this label itself")
        else:
            labels[key] = value
    for key, value in workload.annotations.items():
        if key.startswith(_METRICS):
            findings.dropped(f"annotation {key}", "Outrider sets it for the engine's port")
        elif key.startswith("kubectl.kubernetes.io/") or not isinstance(value, str) or holds_secret(value):
            findings.dropped(
                f"annotation {key}", "it is of the old pods; add it to spec.podTemplate if you need it"
            )
        else:
            annotations[key] = value
    parts: Json = {"labels": labels, "annotations": annotations}
    return {name: part for name, part in parts.items() if part}


def resources(container: Json, pod: Json, findings: Findings) -> tuple[Json, bool]:
    """The field, and whether it has every claim of devices; empty where the source asks for nothing."""
    given = an_object(container.get("resources"))
    amounts: Json = {}
    for kind in ("limits", "requests"):
        found = _amounts(kind, an_object(given.get(kind)), findings)
        if found:
            amounts[kind] = found
    claims = _claims(given, pod)
    if claims:
        amounts["claims"] = claims
    return amounts, bool(claims)


def _amounts(kind: str, given: Mapping[str, JsonValue], findings: Findings) -> Json:
    found: Json = {}
    for name, amount in given.items():
        written = str(amount) if isinstance(amount, float) else amount
        try:
            found[name] = _QUANTITY.validate_python(written)
        except ValidationError:
            findings.dropped(
                f"resources.{kind}.{name}", "write a quantity such as 1, 500m or 64Gi; set spec.resources"
            )
    return found


def _claims(given: Json, pod: Json) -> list[JsonValue]:
    """Each claim of the container where all of them come from templates."""
    templates = {
        text(each.get("name")): text(each.get("resourceClaimTemplateName"))
        for each in objects(pod.get("resourceClaims"))
    }
    names = [text(each.get("name")) for each in objects(given.get("claims"))]
    if not names or not all(templates.get(name) for name in names):
        return []
    return [{"name": name, "resourceClaimTemplateName": templates[name]} for name in names]
