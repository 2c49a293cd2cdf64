"""The connection of a command to the cluster, with the caller's own credentials, and the models there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException, list_kube_config_contexts
from pydantic import ValidationError

from outrider.api.mistakes import validation_message
from outrider.api.resource import SpeculativeModel
from outrider.api.text import shortened
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError
from outrider.cli.options import variable
from outrider.cluster.client import ClusterClient, connect, runs_in_cluster
from outrider.cluster.errors import ClusterError, Refused, Unauthorized, Unavailable
from outrider.cluster.resources import CONFIG_MAPS, MODELS, JsonObject
from outrider.controller.settings import own_namespace
from outrider.controller.stored import state_config_map
from outrider.controller.tune.api_server import STATE_KEY
from outrider.controller.tune.snapshot import read_estimates
from outrider.tuning.decision import BinEstimates
from outrider.tuning.stored import StateError

_REMEDY = "Set KUBECONFIG, or use --kubeconfig."
_NOT_A_KUBECONFIG = (TypeError, ValueError, KeyError, AttributeError, yaml.YAMLError)
"""What the client library raises while it loads a file with other content: it checks few of its types."""
_NO_KUBECONFIG = (ConfigException, OSError, *_NOT_A_KUBECONFIG)


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
        CommandError: no cluster can be asked, or the API server refuses or does not answer.
    """
    choice = _with_file(choice)
    try:
        api = await connect(kubeconfig=choice.kubeconfig, context=choice.context)
    except _NO_KUBECONFIG as error:
        raise CommandError(_no_cluster(choice, error)) from error
    async with api:
        try:
            namespace = choice.namespace or _default_namespace(choice)
            yield Access(ClusterClient(api), namespace, api, replace(choice, namespace=namespace))
        except ClusterError as error:
            raise cannot_read(error) from error


def _with_file(choice: ClusterChoice) -> ClusterChoice:
    """The choice, with the default file where none is named; an empty KUBECONFIG names none, as for kubectl.

    Raises:
        CommandError: there is no such file.
    """
    if choice.kubeconfig is not None:
        if not choice.kubeconfig.exists():
            raise CommandError(f"there is no file {choice.kubeconfig}. Name another one with --kubeconfig.")
        return choice
    if choice.context is None and runs_in_cluster():
        return choice
    default, named = Path.home() / ".kube" / "config", os.environ.get("KUBECONFIG")
    files = named or str(default)
    if not any(Path(each).exists() for each in files.split(os.pathsep) if each):
        raise CommandError(f"no cluster to ask: there is no file {files}. {_REMEDY}")
    return choice if named else replace(choice, kubeconfig=default)


def _no_cluster(choice: ClusterChoice, error: Exception) -> str:
    if isinstance(error, _NOT_A_KUBECONFIG):
        file = _files(choice) or "~/.kube/config"
        return f"no cluster to ask: {file} is not a kubeconfig{_reason(error)}. {_REMEDY}"
    try:
        found = () if choice.context is None else list_kube_config_contexts(_files(choice))[0]  # type: ignore[no-untyped-call]
        names = ", ".join(sorted(str(each["name"]) for each in found))
    except _NO_KUBECONFIG:
        names = ""
    if not names:
        return f"no cluster to ask: {error}. {_REMEDY}"
    return f"the kubeconfig has no context {choice.context}. Use one of: {names}."


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f": line {error.problem_mark.line + 1}: {error.problem}"
    # Of other types the message is about Python and not about the file.
    return f": {shortened(str(error), 200)}" if isinstance(error, ValueError | yaml.YAMLError) else ""


def cannot_read(error: ClusterError) -> CommandError:
    """The exception for an answer that did not come; it says what to do."""
    if isinstance(error, Unavailable | Unauthorized):
        return CommandError(f"the API server does not answer: {error}. Check the kubeconfig.")
    return CommandError(f"{error}. {error.action}")


def _default_namespace(choice: ClusterChoice) -> str:
    """The namespace that kubectl would choose."""
    if choice.kubeconfig is None and choice.context is None and runs_in_cluster():
        return own_namespace()
    try:
        found, current = list_kube_config_contexts(_files(choice))  # type: ignore[no-untyped-call]
        wanted = choice.context or current["name"]
        context = next((each for each in found if each["name"] == wanted), current)
        return str(context["context"].get("namespace") or "default")
    except _NO_KUBECONFIG:
        return own_namespace()


def _files(choice: ClusterChoice) -> str | None:
    return os.environ.get("KUBECONFIG") if choice.kubeconfig is None else str(choice.kubeconfig)


async def read_from_cluster(
    choice: ClusterChoice, name: str
) -> tuple[SpeculativeModel, Mapping[str, BinEstimates]]:
    """Read a model of the chosen namespace; see `read_model`.

    Raises:
        CommandError: see `read_model`; or there is no cluster to ask.
    """
    async with access(choice) as there:
        return await read_model(there.cluster, there.namespace, name)


async def read_model(
    cluster: ClusterClient, namespace: str, name: str
) -> tuple[SpeculativeModel, Mapping[str, BinEstimates]]:
    """The model, and the estimates that its tuner stored last.

    Raises:
        CommandError: no such model, an unreadable one, or an API server that does not answer.
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
        raise CommandError(f"{namespace}/{name} cannot be read: {validation_message(error, raw)}.") from error


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


async def models_everywhere(cluster: ClusterClient) -> list[JsonObject]:
    """All stored models, or those that the operator watches where its account may list no others.

    Raises:
        CommandError: the API server refuses the list, and the message says how to name a namespace.
        ClusterError: no answer.
    """
    try:
        found, _ = await cluster.list_all(MODELS, None)
    except Refused as refused:
        # The chart sets the variable in the operator's pod, whose account then has only Roles.
        watched = dict.fromkeys(os.environ.get(variable("watch_namespaces"), "").split())
        if not watched:
            raise CommandError(
                f"{refused}. Name a namespace with -n, because this account may not list all namespaces."
            ) from refused
        return [raw for namespace in watched for raw in await models_in(cluster, namespace)]
    return found


async def models_in(cluster: ClusterClient, namespace: str) -> list[JsonObject]:
    """The stored models of a namespace.

    Raises:
        CommandError: the API server refuses the list.
        ClusterError: no answer.
    """
    try:
        found, _ = await cluster.list_all(MODELS, namespace)
    except Refused as refused:
        right = f"the verb list on {MODELS.plural}.{MODELS.group} in {namespace}"
        raise CommandError(f"{refused}. Ask for {right}, or name another namespace with -n.") from refused
    return found


def no_such_model(namespace: str, name: str) -> CommandError:
    """The exception for a model that does not exist."""
    return CommandError(
        f"there is no SpeculativeModel {namespace}/{name}; `kubectl get specmodel -A` lists all."
    )


def _estimates(stored: JsonObject | None) -> Mapping[str, BinEstimates]:
    text = str(((stored or {}).get("data") or {}).get(STATE_KEY, ""))
    try:
        return read_estimates(text) if text else {}
    except StateError:
        return {}  # Another version wrote it, and the status is enough.


async def names_in(choice: ClusterChoice) -> tuple[str, ...]:
    """Sorted names of the models of the chosen namespace."""
    async with access(choice) as there:
        found, _ = await there.cluster.list_all(MODELS, there.namespace)
    return tuple(sorted(raw["metadata"]["name"] for raw in found))
