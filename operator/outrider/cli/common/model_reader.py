"""Reads one model, and the estimates that its tuner stored."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from outrider.api.mistakes import complaint
from outrider.api.resource import SpeculativeModel
from outrider.cli.common.cluster import CannotRead, access, cannot_read
from outrider.cli.common.options import ClusterChoice
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, Refused
from outrider.cluster.resources import CONFIG_MAPS, MODELS, JsonObject
from outrider.controller.store import state_config_map
from outrider.controller.tune.memory import read_estimates
from outrider.controller.tune.stored_state import STATE_KEY
from outrider.tuning.decision import BinEstimates
from outrider.tuning.stored import StateError


async def read_from_cluster(
    choice: ClusterChoice, name: str
) -> tuple[SpeculativeModel, Mapping[str, BinEstimates]]:
    """Read a model of the chosen namespace; see `read_model`.

    Raises:
        CannotRead: see `read_model`; or there is no cluster to ask.
    """
    async with access(choice) as there:
        return await read_model(there.cluster, there.namespace, name)


async def read_model(
    cluster: ClusterClient, namespace: str, name: str
) -> tuple[SpeculativeModel, Mapping[str, BinEstimates]]:
    """The model, and the estimates that its tuner stored last.

    Raises:
        CannotRead: no such model, an unreadable one, or an API server that does not answer.
    """
    try:
        raw = await stored_model(cluster, namespace, name)
        stored = await cluster.get(CONFIG_MAPS, namespace, state_config_map(name))
    except ClusterError as error:
        raise cannot_read(error) from error
    if raw is None:
        raise no_such_model(namespace, name)
    try:
        return SpeculativeModel.of_stored(raw), _estimates(stored)
    except ValidationError as error:
        raise CannotRead(f"{namespace}/{name} cannot be read: {complaint(error, raw)}.") from error


async def stored_model(cluster: ClusterClient, namespace: str, name: str) -> JsonObject | None:
    """Return the stored model, or None if it does not exist; the right to list models is enough.

    The operator's own account may list models and not get them, and the commands run in its pod.

    Raises:
        ClusterError: neither right, or no answer.
    """
    try:
        return await cluster.get(MODELS, namespace, name)
    except Refused as refused:
        try:
            found, _ = await cluster.list_all(MODELS, namespace, fields=f"metadata.name={name}")
        except Refused:
            raise refused from None
        return next(iter(found), None)


def no_such_model(namespace: str, name: str) -> CannotRead:
    """The exception for a model that does not exist."""
    return CannotRead(
        f"there is no SpeculativeModel {namespace}/{name}; `kubectl get specmodel -A` lists all."
    )


def _estimates(stored: JsonObject | None) -> Mapping[str, BinEstimates]:
    text = str(((stored or {}).get("data") or {}).get(STATE_KEY, ""))
    try:
        return read_estimates(text) if text else {}
    except StateError:
        return {}  # Another version wrote it, and the status is enough.
