"""The one door to the API server: a typed, retrying client for a fixed set of kinds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.exceptions import DynamicApiError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from outrider import __version__
from outrider.api.text import whole_number
from outrider.cluster.errors import Conflict, NotFound, Unauthorized, Unavailable, from_status
from outrider.cluster.resources import MODELS, SERVICES, JsonObject, Resource, resource_of

_SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=20, sock_connect=5)
_ATTEMPTS = 4
_LONGEST_WAIT_SECONDS = 10.0
_LONGEST_RETRY_AFTER_SECONDS = 120


def runs_in_cluster() -> bool:
    """True when the pod's own service account is to be used; an explicit KUBECONFIG wins."""
    return "KUBECONFIG" not in os.environ and _SERVICE_ACCOUNT_TOKEN.exists()


async def connect() -> ApiClient:
    """A client with the pod's service account, else with the kubeconfig's current context."""
    configuration = Configuration()
    if runs_in_cluster():
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        # The library reads the variable once, when it is imported.
        path = os.environ.get("KUBECONFIG")
        await load_kube_config(path, client_configuration=configuration)  # type: ignore[no-untyped-call]
    api = ApiClient(configuration)
    api.user_agent = f"outrider/{__version__}"
    return api


class ClusterClient:
    """Reads and writes objects; every method raises only `ClusterError`.

    Conflicts, throttling, server errors and broken connections are repeated a few times
    with jitter, or after the server's Retry-After; then they are raised.

    fence: called before each write, repetitions included; raises when this process may no longer write.
    """

    def __init__(self, api: ApiClient, *, fence: Callable[[], None] = lambda: None) -> None:
        self._dynamic = DynamicClient(api)  # type: ignore[no-untyped-call]
        self._api = api
        self._fence = fence

    async def aclose(self) -> None:
        """Close all connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, resource: Resource, namespace: str | None, name: str) -> JsonObject | None:
        """The object, or None when there is none. namespace: None for a kind without namespaces."""
        try:
            return await self._request("get", resource.path(namespace, name))
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
        """All objects of a kind by label and field selector, and the resource version of the view."""
        path = resource.path(namespace)
        answer = await self._request("get", path, label_selector=labels, field_selector=fields)
        # A list leaves out what all its items share.
        header = {"apiVersion": resource.api_version, "kind": resource.kind}
        items: list[JsonObject] = [{**header, **item} for item in answer.get("items") or ()]
        return items, int(answer["metadata"]["resourceVersion"])

    async def apply(self, manifest: JsonObject, *, manager: str, force: bool = True) -> JsonObject:
        """Server-side apply of a whole manifest; creates the object when it is missing."""
        metadata = manifest["metadata"]
        path = resource_of(manifest).path(metadata["namespace"], metadata["name"])
        return await self._apply(path, manifest, manager=manager, force=force)

    async def apply_status(
        self, namespace: str, name: str, status: Mapping[str, object], *, manager: str
    ) -> JsonObject:
        """Server-side apply of the part of a SpeculativeModel's status that ``manager`` owns."""
        body = {
            "apiVersion": MODELS.api_version,
            "kind": MODELS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        return await self._apply(MODELS.path(namespace, name, "status"), body, manager=manager, force=True)

    async def ask(self, review: Resource, question: JsonObject) -> JsonObject:
        """The answer to a review, which is posted and stored nowhere."""
        return await self._request("post", review.path(None), body=question)

    async def get_through(
        self, namespace: str, service: str, path: str, query: Mapping[str, str]
    ) -> JsonObject:
        """What a Service answers with JSON, asked through the API server.

        service: ``scheme:name:port``.
        """
        proxied = f"{SERVICES.path(namespace, service, 'proxy')}/{path.lstrip('/')}"
        return await self._request("get", proxied, query_params=list(query.items()))

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server knows a kind of an add-on, in this version."""
        try:
            answer = await self._request("get", f"/apis/{resource.api_version}")
        except NotFound:
            return False
        return any(each.get("name") == resource.plural for each in answer.get("resources") or ())

    async def version(self) -> tuple[int, int] | None:
        """Major and minor number of the API server's release; None where it tells none."""
        answer = await self._request("get", "/version")
        numbers = (re.match("[0-9]{1,4}", str(answer.get(part, ""))) for part in ("major", "minor"))
        major, minor = (None if number is None else int(number[0]) for number in numbers)
        return None if major is None or minor is None else (major, minor)

    async def annotate(
        self, resource: Resource, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> JsonObject:
        """Set annotations of an object that exists; None removes one."""
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
        """Delete this very object, in the background; one that is gone already is fine."""
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
            field_manager=manager,
            force_conflicts="true" if force else "false",
        )

    async def _write(self, method: str, path: str, **options: object) -> JsonObject:
        return await self._request(method, path, before=self._fence, **options)

    async def _request(
        self, method: str, path: str, *, before: Callable[[], None] = lambda: None, **options: object
    ) -> JsonObject:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((Conflict, Unavailable, Unauthorized)),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=_wait_seconds,
            reraise=True,
        )

        async def once() -> JsonObject:
            before()
            return await self._request_once(method, path, options)

        return await retrying(once)

    async def _request_once(self, method: str, path: str, options: Mapping[str, object]) -> JsonObject:
        try:
            response = await self._dynamic.request(
                method, path, serialize=False, _request_timeout=_REQUEST_TIMEOUT, **options
            )
            answer: dict[str, Any] = json.loads(await response.read())
        except DynamicApiError as error:
            raise from_status(error.status, _message(error), _retry_after(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"unreadable answer to {method.upper()} {path}: {error}") from error
        return answer


_backoff = wait_random_exponential(multiplier=0.2, max=5)


def _wait_seconds(attempt: RetryCallState) -> float:
    error = attempt.outcome.exception() if attempt.outcome else None
    asked = error.retry_after if isinstance(error, Unavailable) and error.retry_after else 0.0
    return min(max(asked, _backoff(attempt)), _LONGEST_WAIT_SECONDS)


def _message(error: DynamicApiError) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, TypeError, KeyError):
        return f"HTTP {error.status} {error.reason}"


def _retry_after(error: DynamicApiError) -> float | None:
    value = (error.headers or {}).get("Retry-After")
    return None if value is None else whole_number(value, most=_LONGEST_RETRY_AFTER_SECONDS)
