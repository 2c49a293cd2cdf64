"""Questions to the API server on a connection that stays open.

Tests that wait look several times a second, and a kubectl that starts anew takes a tenth of a second of a
core for each look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from kubernetes import config
from urllib3 import HTTPResponse, Retry
from urllib3.exceptions import HTTPError

from outrider.cluster.resources import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MODELS,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)

_OF_THE_CLUSTER = (
    DEFINITIONS,
    NODES,
    Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices"),
)
_RESOURCES = (
    *(MODELS, DEPLOYMENTS, REPLICA_SETS, PODS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, SECRETS),
    *(JOBS, CLAIMS, BUDGETS, LEASES, *_OF_THE_CLUSTER),
)
_BY_NAME = {
    **{resource.plural: resource for resource in _RESOURCES},
    **{resource.kind.lower(): resource for resource in _RESOURCES},
    **{"specmodel": MODELS, "crd": DEFINITIONS, "pvc": CLAIMS},
}
"""As kubectl calls them."""
_SECONDS = 30.0
_AGAIN = Retry(connect=2, read=1, other=1, redirect=0, status=0)
"""An idle connection may be closed at the moment when it is used."""


class ApiServerError(AssertionError):
    """The API server refused, or did not answer in time."""


def kind(resource: str) -> str:
    """Of objects, by what kubectl calls them."""
    return _BY_NAME[resource].kind


def path(resource: str, namespace: str, name: str | None = None) -> str:
    """Where an object is, or all of a kind."""
    found = _BY_NAME[resource]
    return found.path(None if found in _OF_THE_CLUSTER else namespace, name)


def read(path: str, *, seconds: float = _SECONDS, **query: str) -> str:
    """What is at a path, such as that of an object or of a pod's page.

    Raises:
        ApiServerError: it is not there, the API server refused, or did not answer within so many seconds.
    """
    status, text = _ask(path, seconds, query)
    if status != HTTPStatus.OK:
        raise ApiServerError(f"GET {path}: {status} {text.strip()}")
    return text


def read_if_there(path: str) -> str | None:
    """As `read`, None for what is not there."""
    status, text = _ask(path, _SECONDS, {})
    if status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
        raise ApiServerError(f"GET {path}: {status} {text.strip()}")
    return text if status == HTTPStatus.OK else None


def refusal_of(manifest: Mapping[str, object], where: str) -> str | None:
    """Ask only, as `kubectl apply --dry-run=server` does: what the API server says to a new model.

    None: it admits the model. where: its namespace.
    """
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    body = json.dumps(manifest).encode()
    status, text = _ask(MODELS.path(where, None), _SECONDS, query, method="POST", body=body)
    return None if status == HTTPStatus.CREATED else str(json.loads(text)["message"])


def _ask(
    path: str, seconds: float, query: dict[str, str], *, method: str = "GET", body: bytes | None = None
) -> tuple[int, str]:
    api = _connection()
    url = f"{api.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
    headers = {each["key"]: each["value"] for each in api.configuration.auth_settings().values()}
    if body is not None:
        headers["Content-Type"] = "application/json"
    pool = api.rest_client.pool_manager
    try:
        answer: HTTPResponse = pool.request(
            method, url, headers=headers, timeout=seconds, retries=_AGAIN, body=body
        )
    except HTTPError as error:
        raise ApiServerError(f"{method} {path}: {error}") from error
    return answer.status, answer.data.decode()


@cache
def _connection() -> Any:
    """KUBECONFIG comes from the environment."""
    return config.new_client_from_config()  # type: ignore[no-untyped-call]
