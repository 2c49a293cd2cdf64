"""The connection of a command to the cluster, with the caller's own credentials."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException, list_kube_config_contexts

from outrider.cli.common.options import ClusterChoice
from outrider.cluster.client import ClusterClient, connect, runs_in_cluster
from outrider.cluster.errors import ClusterError, Unauthorized, Unavailable
from outrider.controller.settings import own_namespace


class CannotRead(Exception):
    """A command has nothing to show; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster, and the namespace for names without one."""

    cluster: ClusterClient
    namespace: str
    api: ApiClient
    choice: ClusterChoice  # with this namespace


@asynccontextmanager
async def access(choice: ClusterChoice) -> AsyncIterator[Access]:
    """The chosen cluster: by kubeconfig, or by the pod's own service account.

    Raises:
        CannotRead: no cluster can be asked, or, out of the block, the API server refuses or does not answer.
    """
    _require_files(choice)
    try:
        api = await connect(kubeconfig=choice.kubeconfig, context=choice.context)
    except (ConfigException, OSError) as error:
        raise CannotRead(_no_cluster(choice, error)) from error
    async with api:
        try:
            namespace = choice.namespace or _default_namespace(choice)
            yield Access(ClusterClient(api), namespace, api, replace(choice, namespace=namespace))
        except ClusterError as error:
            raise cannot_read(error) from error


def _require_files(choice: ClusterChoice) -> None:
    if choice.kubeconfig is not None:
        if not choice.kubeconfig.is_file():
            raise CannotRead(f"there is no file {choice.kubeconfig}. Name another one with --kubeconfig.")
        return
    named = os.environ.get("KUBECONFIG")
    if named is not None and not any(Path(each).exists() for each in named.split(os.pathsep)):
        raise CannotRead(f"no cluster to ask: there is no file {named}. Set KUBECONFIG, or use --kubeconfig.")


def _no_cluster(choice: ClusterChoice, error: Exception) -> str:
    if choice.context is None:
        return f"no cluster to ask: {error}. Set KUBECONFIG, or use --kubeconfig."
    try:
        found, _ = list_kube_config_contexts(_files(choice))  # type: ignore[no-untyped-call]
    except (ConfigException, OSError):
        return f"no cluster to ask: {error}. Set KUBECONFIG, or use --kubeconfig."
    names = ", ".join(sorted(str(each["name"]) for each in found))
    return f"the kubeconfig has no context {choice.context}. Use one of: {names}."


def cannot_read(error: ClusterError) -> CannotRead:
    """The exception for an answer that did not come; it says what to do."""
    if isinstance(error, Unavailable | Unauthorized):
        return CannotRead(f"the API server does not answer: {error}. Check the kubeconfig.")
    return CannotRead(f"{error}. {error.action}")


def _default_namespace(choice: ClusterChoice) -> str:
    """The namespace that kubectl would choose."""
    if choice.kubeconfig is None and choice.context is None and runs_in_cluster():
        return own_namespace()
    try:
        found, current = list_kube_config_contexts(_files(choice))  # type: ignore[no-untyped-call]
    except (ConfigException, OSError):
        return own_namespace()
    wanted = choice.context or current["name"]
    context = next((each for each in found if each["name"] == wanted), current)
    return str(context["context"].get("namespace") or "default")


def _files(choice: ClusterChoice) -> str | None:
    return os.environ.get("KUBECONFIG") if choice.kubeconfig is None else str(choice.kubeconfig)
