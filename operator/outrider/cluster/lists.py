"""One page of a list of the API server. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from outrider.api.text import whole_number
from outrider.cluster.objects import NEWEST_VERSION
from outrider.cluster.resources import JsonObject, Resource

KeptT = TypeVar("KeptT")


@dataclass(frozen=True, slots=True)
class Page(Generic[KeptT]):
    """What is kept of one page.

    version: of the whole list. token: asks for the next page; empty at the end. size: bytes of JSON.
    """

    kept: list[KeptT]
    version: int
    token: str
    size: int


def read_page(content: bytes, resource: Resource, keep: Callable[[JsonObject], KeptT | None]) -> Page[KeptT]:
    """Parse one page; only what ``keep`` makes of its objects outlives this call.

    Raises:
        ValueError, RecursionError: it is no list of objects.
    """
    match json.loads(content):
        case {"metadata": {"resourceVersion": str(text), **about}, **answer}:
            version, token = whole_number(text, most=NEWEST_VERSION), about.get("continue") or ""
        case _:
            raise ValueError("it is no list with a resource version")
    # A list without objects may say null.
    items = answer.get("items", ...)
    items = [] if items is None else items
    if version is None or not isinstance(token, str) or not isinstance(items, list):
        raise ValueError("it is no list of objects")
    if not all(isinstance(item, dict) for item in items):
        raise ValueError("something in the list is no object")
    # A list leaves out what all its items share.
    header = {"apiVersion": resource.api_version, "kind": resource.kind}
    kept = (keep({**header, **item}) for item in items)
    return Page([each for each in kept if each is not None], version, token, len(content))
