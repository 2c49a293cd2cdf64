"""The way of a command into the cluster, with the caller's own credentials."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException, list_kube_config_contexts

from outrider.cluster.client import ClusterClient, connect
from outrider.cluster.errors import ClusterError, Unauthorized, Unavailable
from outrider.controller.settings import own_namespace


class CannotRead(Exception):
    """Nothing to show; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster, and the namespace that a name without one means."""

    cluster: ClusterClient
    namespace: str
    api: ApiClient


@asynccontextmanager
async def access(namespace: str | None) -> AsyncIterator[Access]:
    """The cluster of the kubeconfig's current context, or the pod's own.

    namespace: None for that of the context.

    Raises:
        CannotRead: there is no cluster to ask, or, out of the block, it refuses or does not answer.
    """
    named = os.environ.get("KUBECONFIG")
    if named is not None and not any(Path(each).exists() for each in named.split(os.pathsep)):
        raise CannotRead(f"no cluster to ask: there is no file {named}. Set KUBECONFIG.")
    try:
        api = await connect()
    except (ConfigException, OSError) as error:
        raise CannotRead(f"no cluster to ask: {error}. Set KUBECONFIG.") from error
    async with api:
        try:
            yield Access(ClusterClient(api), namespace or _namespace_of_the_context(), api)
        except ClusterError as error:
            raise told(error) from error


def told(error: ClusterError) -> CannotRead:
    """What a person can do about an answer that did not come."""
    if isinstance(error, Unavailable | Unauthorized):
        return CannotRead(f"the API server does not answer: {error}. Check KUBECONFIG.")
    return CannotRead(f"{error}. {error.action}")


def _namespace_of_the_context() -> str:
    """As kubectl chooses it."""
    try:
        _, current = list_kube_config_contexts(os.environ.get("KUBECONFIG"))  # type: ignore[no-untyped-call]
    except (ConfigException, OSError):
        return own_namespace()
    return str(current["context"].get("namespace") or "default")
