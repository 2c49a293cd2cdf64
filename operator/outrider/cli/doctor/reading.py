"""Read a cluster with the caller's rights. A part that the caller may not read is marked as such."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from outrider.api.resource import SpeculativeModel
from outrider.api.tuning import Actuation
from outrider.api.validation_message import first_validation_message
from outrider.cli.common.cluster import Access, access
from outrider.cli.common.options import ClusterChoice
from outrider.cli.doctor.evidence import (
    CannotLook,
    EnginePod,
    Evidence,
    Metrics,
    NodeClock,
    OfOperator,
    Operator,
    Right,
    Silent,
    part,
)
from outrider.cli.doctor.findings import Unseen
from outrider.cli.doctor.launch_reading import COMPONENT, extended, read_place
from outrider.cli.doctor.prometheus_reading import read_metrics
from outrider.cli.options import variable
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NotFound, Unavailable
from outrider.cluster.installation import Installation
from outrider.cluster.lease import LEASE_NAME
from outrider.cluster.resources import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    INFERENCE_POOLS,
    JOBS,
    LEASES,
    MODELS,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    JsonObject,
)
from outrider.cluster.reviews import Act, ServiceAccount, may
from outrider.cluster.shards import MAX_SHARDS, Shard
from outrider.controller.settings import MetricsSourceKind, Settings
from outrider.plan.names import MODEL_LABEL
from outrider_protocol.methods import Method

_NO_ACCOUNT = "no operator was seen whose account could be asked about"
_NO_PROMETHEUS = "no operator was found, and only it knows its Prometheus"
_NODE_LEASES = "kube-node-lease"
_MAX_NAMESPACES = 5
"""Namespaces that are checked; a release has the same roles in each namespace that it watches."""
_LISTS = ("watch_namespaces", "engine_images", "engine_image_pull_secrets", "control_peers")

SeenT = TypeVar("SeenT")
ReadOne = Callable[[Settings, Operator], Awaitable[SeenT]]


async def look_at_cluster(choice: ClusterChoice) -> Evidence:
    """Every part of the chosen cluster, read one after the other."""
    async with access(choice) as there:
        return await _look_at(there)


async def _look_at(there: Access) -> Evidence:
    cluster = there.cluster
    operators = await _seen(_operators(cluster))
    return Evidence(
        crd=await _seen(cluster.get(DEFINITIONS, None, f"{MODELS.plural}.{MODELS.group}")),
        operators=operators,
        terms=await _seen(_terms(cluster)),
        missing_of_caller=await _seen(_missing(cluster, OF_THE_CALLER, there.namespace, account=None)),
        missing_of_operators=await _seen(
            _of_each(operators, lambda settings, of: _missing_of(cluster, settings, of), _NO_ACCOUNT)
        ),
        metrics=await _seen(
            _of_each(operators, lambda settings, _: _metrics(cluster, settings), _NO_PROMETHEUS)
        ),
        engines=await _seen(_engines(cluster)),
        offered=await _seen(_offered(cluster)),
        wanted=await _seen(_wanted(cluster)),
        place=await _seen(read_place(cluster)),
        clocks=await _seen(_clocks(cluster)),
        models=await _seen(_models(cluster)),
        # Last: a look may take seconds, and what was written meanwhile is not from the future.
        now=datetime.now(UTC),
    )


async def _seen(part: Awaitable[SeenT]) -> SeenT | Unseen:
    """A part, or why it was refused."""
    try:
        return await part
    except Unavailable:
        raise
    except ClusterError as error:
        return Unseen(error.message)
    except CannotLook as error:
        return Unseen(str(error))


async def _of_each(
    operators: tuple[Operator, ...] | Unseen, read: ReadOne[SeenT], none: str
) -> tuple[OfOperator[SeenT], ...]:
    """One part of every operator.

    Raises:
        CannotLook: no operator was seen; ``none`` says why one is needed.
    """
    if isinstance(operators, Unseen) or not operators:
        raise CannotLook(none)
    return tuple([OfOperator(each, await _seen(_of_one(each, read))) for each in operators])


async def _of_one(operator: Operator, read: ReadOne[SeenT]) -> SeenT:
    if isinstance(operator.settings, Unseen):
        raise CannotLook(f"the settings of {operator.title} were not read")
    return await read(operator.settings, operator)


async def _models(cluster: ClusterClient) -> tuple[SpeculativeModel, ...]:
    """What cannot be read says so itself, in Degraded."""
    found, _ = await cluster.list_all(MODELS, None)
    read: list[SpeculativeModel] = []
    for raw in found:
        with suppress(ValidationError):
            read.append(SpeculativeModel.of_stored(raw))
    return tuple(read)


async def _operators(cluster: ClusterClient) -> tuple[Operator, ...]:
    found, _ = await cluster.list_all(DEPLOYMENTS, None, labels=COMPONENT)
    return tuple(operator for raw in found if (operator := _operator(raw)) is not None)


def _operator(raw: JsonObject) -> Operator | None:
    """None for the operator of other software: the label `name` is the user's, and the variables are ours."""
    metadata, spec = raw["metadata"], raw["spec"]
    variables = spec["template"]["spec"]["containers"][0].get("env") or ()
    if not any(each["name"].startswith(variable("")) for each in variables):
        return None
    return Operator(
        namespace=metadata["namespace"],
        name=metadata["name"],
        version=metadata.get("labels", {}).get("app.kubernetes.io/version", "unknown"),
        ready=part(raw, "status").get("readyReplicas", 0),
        wanted=spec.get("replicas", 1),
        settings=_settings(variables),
    )


def _settings(variables: tuple[Mapping[str, str], ...]) -> Settings | Unseen:
    """As the operator reads them: lists are parted by spaces."""
    given = {each["name"]: each["value"] for each in variables if "value" in each}
    names = {name: given[variable(name)] for name in Settings.model_fields if variable(name) in given}
    parsed = {name: text.split() if name in _LISTS else text for name, text in names.items()}
    try:
        return Settings.model_validate(parsed)
    except ValidationError as error:
        return Unseen(first_validation_message(error, whole="settings"))


async def _terms(cluster: ClusterClient) -> tuple[Installation, ...]:
    first = await _leases(cluster, None, LEASE_NAME)
    terms = list(first)
    for each in first:
        for shard in Shard.all_of(min(each.claim.shard.of, MAX_SHARDS))[1:]:
            terms += await _leases(cluster, each.namespace, shard.lease_name(LEASE_NAME))
    return tuple(terms)


async def _leases(cluster: ClusterClient, namespace: str | None, name: str) -> list[Installation]:
    found, _ = await cluster.list_all(LEASES, namespace, fields=f"metadata.name={name}")
    read = (Installation.read(raw) for raw in found)
    return [each for each in read if each is not None]


async def _missing_of(
    cluster: ClusterClient, settings: Settings, operator: Operator
) -> Mapping[str, tuple[Right, ...]]:
    account = ServiceAccount(operator.namespace, settings.service_account)
    namespaces = settings.watch_namespaces[:_MAX_NAMESPACES] or ("",)
    missing = [await _missing(cluster, OF_THE_OPERATOR, each, account=account) for each in namespaces]
    return dict(zip(namespaces, missing, strict=True))


async def _missing(
    cluster: ClusterClient, rights: tuple[Right, ...], namespace: str, *, account: ServiceAccount | None
) -> tuple[Right, ...]:
    """The rights that are not granted. account: None for the caller's own."""

    def act(right: Right) -> Act:
        plural, _, subresource = right.resource.partition("/")
        return Act(right.group, plural, right.verb, namespace, subresource=subresource)

    allowed = await asyncio.gather(*(may(cluster, act(right), account=account) for right in rights))
    return tuple(right for right, granted in zip(rights, allowed, strict=True) if not granted)


async def _metrics(cluster: ClusterClient, settings: Settings) -> Metrics | Silent | None:
    if settings.metrics_source is not MetricsSourceKind.PROMETHEUS:
        return None
    url = settings.prometheus_url
    try:
        return await read_metrics(cluster, url)
    except (NotFound, Unavailable) as error:
        return Silent(f"{url} is not reached: {error.message}")


async def _engines(cluster: ClusterClient) -> tuple[EnginePod, ...]:
    models, _ = await cluster.list_all(MODELS, None)
    live = {(raw["metadata"]["namespace"], raw["metadata"]["name"]) for raw in models if _is_live(raw)}
    found, _ = await cluster.list_all(PODS, None, labels=MODEL_LABEL)
    return tuple(_engine(raw["metadata"], live) for raw in found if _is_ready(raw))


def _engine(metadata: JsonObject, live: Collection[tuple[str, str]]) -> EnginePod:
    namespace, model = metadata["namespace"], metadata["labels"][MODEL_LABEL]
    return EnginePod(namespace, metadata["name"], model, (namespace, model) in live)


def _is_live(model: JsonObject) -> bool:
    """True for engines with a drafter whose schedule changes live; the spec may have any version."""
    speculation = part(model, "spec", "speculation")
    actuation = part(speculation, "tuning").get("actuation", Actuation.LIVE)
    return speculation.get("method") != Method.NONE and actuation == Actuation.LIVE


def _is_ready(pod: JsonObject) -> bool:
    conditions = part(pod, "status").get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _offered(cluster: ClusterClient) -> Mapping[str, int]:
    found, _ = await cluster.list_all(NODES, None)
    offered: Counter[str] = Counter()
    for node in found:
        offered.update(extended(part(node, "status", "allocatable")))
    return dict(sorted(offered.items()))


async def _wanted(cluster: ClusterClient) -> Mapping[str, int]:
    found, _ = await cluster.list_all(DEPLOYMENTS, None, labels=MODEL_LABEL)
    wanted: Counter[str] = Counter()
    for deployment in found:
        spec = deployment["spec"]
        for container in spec["template"]["spec"]["containers"]:
            limits = extended(part(container, "resources", "limits"))
            wanted.update({name: count * spec.get("replicas", 1) for name, count in limits.items()})
    return dict(sorted(wanted.items()))


async def _clocks(cluster: ClusterClient) -> tuple[NodeClock, ...]:
    found, _ = await cluster.list_all(LEASES, _NODE_LEASES)
    return tuple(clock for raw in found if (clock := _clock(raw)) is not None)


def _clock(lease: JsonObject) -> NodeClock | None:
    """The clocks of a Lease; None where the API server did not record when the Lease was renewed."""
    renewed = part(lease, "spec").get("renewTime")
    entries = lease["metadata"].get("managedFields") or ()
    # Another writer may have written other fields since.
    written = [
        each["time"]
        for each in entries
        if "time" in each and "f:renewTime" in part(each, "fieldsV1", "f:spec")
    ]
    if not written or not renewed:
        return None
    name = lease["metadata"]["name"]
    return NodeClock(name, datetime.fromisoformat(renewed), max(map(datetime.fromisoformat, written)))


_CHILD = ("get", "list", "watch", "create", "patch")

_OF_TARGETS = (
    ("apps", "statefulsets"),
    ("serving.kserve.io", "inferenceservices"),
    ("serving.kserve.io", "llminferenceservices"),
)
"""What `spec.target` may name, besides the kinds that Outrider creates."""

OF_THE_OPERATOR = tuple(
    Right(group, resource, verb)
    for group, resource, verbs in (
        (MODELS.group, MODELS.plural, ("list", "watch")),
        (MODELS.group, f"{MODELS.plural}/status", ("patch",)),
        (MODELS.group, f"{MODELS.plural}/finalizers", ("update",)),
        *((kind.group, kind.plural, (*_CHILD, "delete")) for kind in (DEPLOYMENTS, JOBS, BUDGETS)),
        *((kind.group, kind.plural, _CHILD) for kind in (SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS)),
        *((kind.group, kind.plural, ("get", "create", "patch")) for kind in (SECRETS, CLAIMS)),
        (INFERENCE_POOLS.group, INFERENCE_POOLS.plural, ("get", "create", "patch", "delete")),
        (PODS.group, PODS.plural, ("list", "watch")),
        (REPLICA_SETS.group, REPLICA_SETS.plural, ("list",)),
        (EVENTS.group, EVENTS.plural, ("create",)),
        *((group, plural, ("get",)) for group, plural in _OF_TARGETS),
    )
    for verb in verbs
)
"""In each namespace that it watches."""

OF_THE_CALLER = (
    Right(MODELS.group, MODELS.plural, "get", "outrider status NAME, explain"),
    Right(MODELS.group, MODELS.plural, "list", "outrider status"),
    Right(CONFIG_MAPS.group, CONFIG_MAPS.plural, "get", "outrider explain"),
    Right(MODELS.group, MODELS.plural, "patch", "outrider bench, sweep, verify"),
    Right(PODS.group, f"{PODS.plural}/portforward", "create", "outrider bench, sweep, verify without --url"),
)
"""In the namespace of the context."""
