"""Reads one model and what its tuner stored, with the caller's own credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kubernetes.aio.config import ConfigException, list_kube_config_contexts
from pydantic import ValidationError

from outrider.api.complaint import complaint
from outrider.api.resource import SpeculativeModel
from outrider.cluster.client import ClusterClient, connect
from outrider.cluster.errors import ClusterError, Unauthorized, Unavailable
from outrider.cluster.resources import CONFIG_MAPS, MODELS, JsonObject
from outrider.controller.settings import own_namespace
from outrider.controller.store import state_config_map
from outrider.controller.tune.memory import read_estimates
from outrider.controller.tune.stored_state import STATE_KEY
from outrider.tuning.decision import BinEstimates
from outrider.tuning.stored import StateError


class CannotRead(Exception):
    """Nothing to show; the message says why and what to do."""


async def read_from_cluster(
    namespace: str | None, name: str
) -> tuple[SpeculativeModel, Mapping[str, BinEstimates]]:
    """See `read_model`; in the cluster of the kubeconfig's current context, or the pod's own.

    namespace: None for that of the context.

    Raises:
        CannotRead: see `read_model`; or there is no cluster to ask.
    """
    try:
        api = await connect()
    except (ConfigException, OSError) as error:
        raise CannotRead(f"no cluster to ask: {error}. Set KUBECONFIG.") from error
    async with api:
        return await read_model(ClusterClient(api), namespace or _namespace_of_the_context(), name)


def _namespace_of_the_context() -> str:
    """As kubectl chooses it."""
    try:
        _, current = list_kube_config_contexts(os.environ.get("KUBECONFIG"))  # type: ignore[no-untyped-call]
    except (ConfigException, OSError):
        return own_namespace()
    return str(current["context"].get("namespace") or "default")


async def read_model(
    cluster: ClusterClient, namespace: str, name: str
) -> tuple[SpeculativeModel, Mapping[str, BinEstimates]]:
    """The model, and the estimates that its tuner stored last.

    Raises:
        CannotRead: no such model, an unreadable one, or an API server that does not answer.
    """
    try:
        raw = await cluster.get(MODELS, namespace, name)
        stored = await cluster.get(CONFIG_MAPS, namespace, state_config_map(name))
    except (Unavailable, Unauthorized) as error:
        raise CannotRead(f"the API server does not answer: {error}. Check KUBECONFIG.") from error
    except ClusterError as error:
        raise CannotRead(f"{error}. {error.action}") from error
    if raw is None:
        raise CannotRead(
            f"no SpeculativeModel {namespace}/{name}; `kubectl get specmodel -A` lists those that exist."
        )
    try:
        return SpeculativeModel.of_stored(raw), _estimates(stored)
    except ValidationError as error:
        raise CannotRead(f"{namespace}/{name} cannot be read: {complaint(error, raw)}.") from error


def _estimates(stored: JsonObject | None) -> Mapping[str, BinEstimates]:
    text = str(((stored or {}).get("data") or {}).get(STATE_KEY, ""))
    try:
        return read_estimates(text) if text else {}
    except StateError:
        return {}  # of another version, or somebody else's: what status says is enough
