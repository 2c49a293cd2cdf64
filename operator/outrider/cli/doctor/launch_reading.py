"""Reads the nodes, pods and add-ons that decide whether engine pods can start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping

from outrider.api.quantity import duration_seconds
from outrider.cli.doctor.evidence import GpuNode, Launch, Place, Taint, Toleration, part
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NotFound, Unavailable
from outrider.cluster.resources import DEPLOYMENTS, MODELS, NODES, PODS, SECRETS, JsonObject, Resource
from outrider.plan.names import CONTAINER, MODEL_LABEL

_RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
_POD_MONITORS = Resource("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
_PROMETHEUSES = Resource("monitoring.coreos.com", "v1", "Prometheus", "prometheuses")
_SECURITY_CONTEXTS = Resource(
    "security.openshift.io", "v1", "SecurityContextConstraints", "securitycontextconstraints"
)
COMPONENT = "app.kubernetes.io/component=operator"
"""The one label of the chart's objects that no value changes; operators of other software may have it."""
_INSTANCE = "app.kubernetes.io/instance"
_DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
_GPU_LABELS = (
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "feature.node.kubernetes.io/pci-10de.present",
)
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_DEFAULT_DEADLINE = "20m"


async def read_place(cluster: ClusterClient) -> Place:
    """Everything about nodes, pods and add-ons that the caller may read.

    Raises:
        ClusterError: the API server refuses to show nodes or models.
    """
    nodes, _ = await cluster.list_all(NODES, None)
    models, _ = await cluster.list_all(MODELS, None)
    deployments, _ = await cluster.list_all(DEPLOYMENTS, None, labels=MODEL_LABEL)
    pods, _ = await cluster.list_all(PODS, None, labels=MODEL_LABEL)
    specs = {(raw["metadata"]["namespace"], _name(raw)): part(raw, "spec") for raw in models}
    scheduled = {_model_of(raw) for raw in pods if _names_a_model(raw) and part(raw, "spec").get("nodeName")}
    launches = tuple(_launch(raw, specs, scheduled) for raw in deployments if _names_a_model(raw))
    refused: list[str] = []
    return Place(
        nodes=tuple(node for raw in nodes if (node := _node(raw)) is not None),
        launches=launches,
        runtime_classes=frozenset(_name(raw) for raw in await _of_add_on(cluster, _RUNTIME_CLASSES, refused)),
        openshift=await cluster.serves(_SECURITY_CONTEXTS),
        missing_secrets=frozenset([pair async for pair in _missing(cluster, launches, refused)]),
        ignored_pod_monitors=await _ignored(cluster, refused),
        refused=tuple(refused),
    )


async def _of_add_on(
    cluster: ClusterClient, resource: Resource, refused: list[str], *, labels: str | None = None
) -> list[JsonObject]:
    """Objects of an add-on. None where the cluster lacks the kind; a refusal is noted in ``refused``."""
    try:
        found, _ = await cluster.list_all(resource, None, labels=labels)
    except NotFound:
        return []
    except Unavailable:
        raise
    except ClusterError as error:
        refused.append(error.message)
        return []
    return found


async def _missing(
    cluster: ClusterClient, launches: Iterable[Launch], refused: list[str]
) -> AsyncIterator[tuple[str, str]]:
    """Namespace and name of pull secrets that pods name and that do not exist."""
    for namespace, name in sorted(
        {(each.namespace, name) for each in launches for name in each.pull_secrets}
    ):
        try:
            found = await cluster.get(SECRETS, namespace, name)
        except Unavailable:
            raise
        except ClusterError as error:
            refused.append(error.message)
            continue
        if found is None:
            yield namespace, name


async def _ignored(cluster: ClusterClient, refused: list[str]) -> tuple[str, ...]:
    """PodMonitors of Outrider that no Prometheus selects; none where no Prometheus object exists."""
    monitors = _ours(await _of_add_on(cluster, _POD_MONITORS, refused, labels=COMPONENT))
    servers = await _of_add_on(cluster, _PROMETHEUSES, refused)
    selectors = [part(raw, "spec").get("podMonitorSelector") for raw in servers]
    return tuple(
        f"{raw['metadata']['namespace']}/{_name(raw)}"
        for raw in monitors
        if selectors and not any(_selects(each, raw["metadata"].get("labels") or {}) for each in selectors)
    )


def _ours(monitors: Collection[JsonObject]) -> Iterator[JsonObject]:
    """Those of releases with a PodMonitor of engines; the chart brings it and the operator's together."""
    releases = {
        _release(raw)
        for raw in monitors
        for each in part(raw, "spec", "selector").get("matchExpressions") or ()
        if each.get("key") == MODEL_LABEL
    }
    return (raw for raw in monitors if _release(raw) in releases)


def _release(raw: JsonObject) -> tuple[str, str]:
    labels = raw["metadata"].get("labels") or {}
    return raw["metadata"]["namespace"], labels.get(_INSTANCE, "")


def _selects(selector: JsonObject | None, labels: Mapping[str, str]) -> bool:
    """Compare labels alone; expressions count as a match. None selects nothing, an empty selector all."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _node(raw: JsonObject) -> GpuNode | None:
    """None for a node without GPUs."""
    labels = raw["metadata"].get("labels") or {}
    allocatable = extended(part(raw, "status", "allocatable"))
    if not allocatable and not any(label in labels for label in _GPU_LABELS):
        return None
    driver = next((labels[label] for label in _DRIVER_LABELS if label in labels), "")
    taints = part(raw, "spec").get("taints") or ()
    return GpuNode(
        name=raw["metadata"]["name"],
        allocatable=allocatable,
        architecture=labels.get("kubernetes.io/arch", "amd64"),
        driver=int(driver) if driver.isdecimal() else None,
        taints=tuple(
            Taint(one["key"], one.get("value", ""), one["effect"])
            for one in taints
            if one.get("effect") in _KEEPS_AWAY
        ),
    )


def _launch(
    raw: JsonObject, specs: Mapping[tuple[str, str], JsonObject], scheduled: Collection[tuple[str, str]]
) -> Launch:
    pod = raw["spec"]["template"]["spec"]
    key = _model_of(raw)
    spec = specs.get(key) or {}
    engine = next((one for one in pod["containers"] if one.get("name") == CONTAINER), pod["containers"][0])
    rolling = part(raw, "spec", "strategy", "rollingUpdate")
    sources = (part(spec, "model"), part(spec, "speculation", "drafter"))
    hub = any(str(source.get("uri", "")).startswith("hf://") for source in sources)
    deadline = str(part(spec, "rollout").get("progressDeadline", _DEFAULT_DEADLINE))
    return Launch(
        namespace=key[0],
        model=key[1],
        gpus=extended(part(engine, "resources", "limits")),
        replicas=int(raw["spec"].get("replicas", 1)),
        surges=str(rolling.get("maxSurge", "25%")) not in ("0", "0%"),
        tolerations=tuple(
            Toleration(*(one.get(field, "") for field in ("key", "operator", "value", "effect")))
            for one in pod.get("tolerations") or ()
        ),
        runtime_class=pod.get("runtimeClassName"),
        user=part(pod, "securityContext").get("runAsUser"),
        pull_secrets=tuple(one["name"] for one in pod.get("imagePullSecrets") or ()),
        version=str(part(spec, "engine").get("version", "")),
        downloads=hub and not spec.get("cache"),
        deadline_seconds=_seconds(deadline),
        scheduled=key in scheduled,
    )


def _seconds(deadline: str) -> float:
    """Seconds of a deadline of any version of the spec; one that cannot be read counts as 0."""
    try:
        return duration_seconds(deadline)
    except ValueError:
        return 0.0


def _name(raw: JsonObject) -> str:
    return str(raw["metadata"]["name"])


def _names_a_model(raw: JsonObject) -> bool:
    return MODEL_LABEL in (raw["metadata"].get("labels") or {})


def _model_of(raw: JsonObject) -> tuple[str, str]:
    return raw["metadata"]["namespace"], raw["metadata"]["labels"][MODEL_LABEL]


def extended(quantities: Mapping[str, object]) -> dict[str, int]:
    """Extended resources: names with a vendor's domain, and whole numbers."""
    return {
        name: int(str(text))
        for name, text in quantities.items()
        if "/" in name and str(text).isdecimal() and int(str(text))
    }
