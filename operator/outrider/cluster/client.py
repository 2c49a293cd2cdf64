"""A typed, retrying client of the API server for a fixed set of kinds. Everything else uses it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import getproxies

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from outrider import __version__
from outrider.api.text import whole_number
from outrider.cluster.errors import (
    Conflict,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    from_status,
)
from outrider.cluster.lists import ListBounds, read_list
from outrider.cluster.resources import MODELS, SERVICES, JsonObject, Resource, resource_of

_SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=20, sock_connect=5)
_MAX_WAIT_SECONDS = 10.0
_MAX_RETRY_AFTER_SECONDS = 120
_PARSED_HERE_BYTES = 64 * 2**10
"""A thread parses larger answers, so that the loop is not blocked."""

_JSON = "application/json"

KeptT = TypeVar("KeptT")


def runs_in_cluster() -> bool:
    """Return True if the pod's own service account is used; an explicit KUBECONFIG wins."""
    return "KUBECONFIG" not in os.environ and _SERVICE_ACCOUNT_TOKEN.exists()


async def connect(*, kubeconfig: Path | None = None, context: str | None = None) -> ApiClient:
    """Return a client with the pod's service account, or else with a kubeconfig.

    A named kubeconfig or context takes precedence over the service account.

    kubeconfig: None for the files in KUBECONFIG. context: None for the current context.
    """
    configuration = Configuration()
    if kubeconfig is None and context is None and runs_in_cluster():
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        # The library reads the variable only once, at import.
        path = os.environ.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig)
        await load_kube_config(  # type: ignore[no-untyped-call]
            path, context=context, client_configuration=configuration
        )
    # With it, aiohttp reads all variables of the environment twice for each request.
    configuration.client_session_kwargs = {"trust_env": bool(getproxies())}
    api = ApiClient(configuration)
    api.user_agent = f"outrider/{__version__}"
    return api


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What a client accepts before it reports an error."""

    attempts: int = 4
    """Attempts at one request, while its error can be temporary."""
    answer_bytes: int = 16 * 2**20
    """etcd stores at most 1.5 MiB per object, and JSON needs up to six bytes for a character."""
    page_bytes: int = 2 * 2**20
    """For a larger page, the client repeats the request with fewer objects, down to one."""
    list_bytes: int = 64 * 2**20
    """Limit of a list whose objects are kept unchanged."""


class ClusterClient:
    """Client that reads and writes objects; every method raises only `ClusterError`.

    It retries conflicts, throttling, server errors and broken connections a few times, with jitter or
    after the server's Retry-After. Then it raises the error.

    fence: called before each attempt to write; raises when this process may no longer write.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        fence: Callable[[], None] = lambda: None,
        limits: ClientLimits = ClientLimits(),
    ) -> None:
        self._api = api
        self._fence = fence
        self._limits = limits

    async def aclose(self) -> None:
        """Close all connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, resource: Resource, namespace: str | None, name: str) -> JsonObject | None:
        """Return the object, or None if it does not exist. namespace: None for a cluster-scoped kind."""
        try:
            return await self._ask("get", resource.path(namespace, name))
        except NotFound:
            return None

    async def list_all(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> tuple[list[JsonObject], int]:
        """Return all objects of a kind by label and field selector, and the list's resource version.

        Raises:
            TooLarge: they exceed the limit of a list.
        """
        bounds = replace(self._bounds, list_bytes=self._limits.list_bytes)
        return await read_list(self._get_page, resource, namespace, lambda raw: raw, labels, fields, bounds)

    async def list_through(
        self,
        resource: Resource,
        namespace: str | None,
        keep: Callable[[JsonObject], KeptT | None],
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> tuple[list[KeptT], int]:
        """List objects as `list_all` does, but keep only the result of ``keep`` for each; drop None.

        keep: called in any thread; raises nothing.
        """
        return await read_list(self._get_page, resource, namespace, keep, labels, fields, self._bounds)

    @property
    def _bounds(self) -> ListBounds:
        return ListBounds(self._limits.page_bytes, self._limits.answer_bytes)

    async def _get_page(
        self, path: str, read: Callable[[bytes], KeptT], query: list[tuple[str, str]], most_bytes: int
    ) -> KeptT:
        return await self._request("get", path, read, query=query, most_bytes=most_bytes)

    async def apply(self, manifest: JsonObject, *, manager: str, force: bool = True) -> JsonObject:
        """Apply a whole manifest server-side; create the object if it is missing."""
        metadata = manifest["metadata"]
        path = resource_of(manifest).path(metadata["namespace"], metadata["name"])
        return await self._apply(path, manifest, manager=manager, force=force)

    async def apply_status(
        self, namespace: str, name: str, status: Mapping[str, object], *, manager: str
    ) -> JsonObject:
        """Apply server-side the part of a SpeculativeModel's status that ``manager`` owns."""
        body = {
            "apiVersion": MODELS.api_version,
            "kind": MODELS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        return await self._apply(MODELS.path(namespace, name, "status"), body, manager=manager, force=True)

    async def ask(self, review: Resource, question: JsonObject) -> JsonObject:
        """Post a review, which Kubernetes does not store, and return its answer."""
        return await self._ask("post", review.path(None), body=question)

    async def get_through(
        self, namespace: str, service: str, path: str, query: Mapping[str, str]
    ) -> JsonObject:
        """Return the JSON answer of a Service, requested through the API server's proxy.

        service: ``scheme:name:port``.
        """
        proxied = f"{SERVICES.path(namespace, service, 'proxy')}/{path.lstrip('/')}"
        return await self._ask("get", proxied, query=list(query.items()))

    async def serves(self, resource: Resource) -> bool:
        """Return True if the API server serves this version of an optional kind."""
        try:
            answer = await self._ask("get", f"/apis/{resource.api_version}")
        except NotFound:
            return False
        known = answer.get("resources") or ()
        if not isinstance(known, list | tuple):
            raise Unavailable(f"cannot parse the list of kinds of {resource.api_version}")
        return any(isinstance(each, dict) and each.get("name") == resource.plural for each in known)

    async def version(self) -> tuple[int, int] | None:
        """Return the major and minor version of the API server, or None if it reports none."""
        answer = await self._ask("get", "/version")
        numbers = (re.match("[0-9]{1,4}", str(answer.get(part, ""))) for part in ("major", "minor"))
        major, minor = (None if number is None else int(number[0]) for number in numbers)
        return None if major is None or minor is None else (major, minor)

    async def annotate(
        self, resource: Resource, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> JsonObject:
        """Set annotations of an existing object; None removes one."""
        return await self._write(
            "patch",
            resource.path(namespace, name),
            body={"metadata": {"annotations": dict(annotations)}},
            content_type="application/merge-patch+json",
        )

    async def create(self, resource: Resource, manifest: JsonObject) -> JsonObject:
        """Create one object."""
        return await self._write("post", resource.path(manifest["metadata"]["namespace"]), body=manifest)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:
        """Delete the object with this UID in the background; do nothing if it is gone already."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._write("delete", resource.path(namespace, name), body=body)
        except (NotFound, Conflict):
            return

    async def _apply(self, path: str, body: JsonObject, *, manager: str, force: bool) -> JsonObject:
        return await self._write(
            "patch",
            path,
            body=body,
            content_type="application/apply-patch+yaml",
            query=[("fieldManager", manager), ("force", "true" if force else "false")],
        )

    async def _write(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject,
        content_type: str = _JSON,
        query: list[tuple[str, str]] | None = None,
    ) -> JsonObject:
        return await self._request(
            method, path, _read_object, sent=(content_type, body), query=query, before=self._fence
        )

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None = None,
        query: list[tuple[str, str]] | None = None,
    ) -> JsonObject:
        return await self._request(method, path, _read_object, sent=(_JSON, body), query=query)

    async def _request(
        self,
        method: str,
        path: str,
        read: Callable[[bytes], KeptT],
        *,
        sent: tuple[str, JsonObject | None] = (_JSON, None),
        query: list[tuple[str, str]] | None = None,
        most_bytes: int | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> KeptT:
        """Send a request with retries. sent: media type and body."""
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((Conflict, Unavailable, Unauthorized)),
            stop=stop_after_attempt(self._limits.attempts),
            wait=_wait_seconds,
            reraise=True,
        )

        async def once() -> KeptT:
            before()
            request = await self._api.param_serialize(
                method.upper(),
                path,
                query_params=query or [],
                # The size of a compressed answer is unknown until it is unpacked.
                header_params={
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                    "Content-Type": sent[0],
                },
                body=sent[1],
                auth_settings=["BearerToken"],
            )
            what = f"{method.upper()} {path}"
            content = await self._request_once(request, what, most_bytes or self._limits.answer_bytes)
            if len(content) <= _PARSED_HERE_BYTES:
                return _readable(read, content, what)
            return await asyncio.to_thread(_readable, read, content, what)

        return await retrying(once)

    async def _request_once(
        self, request: tuple[Any, Any, Any, Any, Any], what: str, most_bytes: int
    ) -> bytes:
        try:
            method, url, headers, body, fields = request
            answer = await self._api.call_api(
                method, url, headers, body, fields, _request_timeout=_REQUEST_TIMEOUT
            )
            async with answer.response as response:
                content = await _content(response, what, most_bytes)
                if not 200 <= response.status <= 299:
                    text = _message(content, f"HTTP {response.status} {response.reason}")
                    raise from_status(response.status, text, _retry_after(response.headers))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        return content


async def _content(response: aiohttp.ClientResponse, what: str, most_bytes: int) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > most_bytes:
            response.close()
            raise TooLarge(f"the answer to {what} is larger than {most_bytes} bytes")
    return bytes(content)


def _read_object(content: bytes) -> JsonObject:
    answer = json.loads(content)
    if not isinstance(answer, dict):
        raise ValueError("not a JSON object")
    return answer


def _readable(read: Callable[[bytes], KeptT], content: bytes, what: str) -> KeptT:
    try:
        return read(content)
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"cannot parse the answer to {what}: {error}") from error


_backoff = wait_random_exponential(multiplier=0.2, max=5)


def _wait_seconds(attempt: RetryCallState) -> float:
    error = attempt.outcome.exception() if attempt.outcome else None
    asked = error.retry_after if isinstance(error, Unavailable) and error.retry_after else 0.0
    return min(max(asked, _backoff(attempt)), _MAX_WAIT_SECONDS)


def _message(content: bytes, otherwise: str) -> str:
    """Return the API server's message about a failure."""
    try:
        return str(_read_object(content)["message"])
    except (ValueError, KeyError, RecursionError):
        return otherwise


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("Retry-After")
    return None if value is None else whole_number(value, most=_MAX_RETRY_AFTER_SECONDS)
