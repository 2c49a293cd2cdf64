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
    """The kept part of one page.

    version: of the whole list. token: requests the next page; empty at the end. size: bytes of JSON.
    """

    kept: list[KeptT]
    version: int
    token: str
    size: int


def read_page(content: bytes, resource: Resource, keep: Callable[[JsonObject], KeptT | None]) -> Page[KeptT]:
    """Parse one page, and keep only the result of ``keep`` for each object.

    Raises:
        ValueError, RecursionError: the page is not a list of objects.
    """
    match json.loads(content):
        case {"metadata": {"resourceVersion": str(text), **about}, **answer}:
            version, token = whole_number(text, most=NEWEST_VERSION), about.get("continue") or ""
        case _:
            raise ValueError("not a list with a resource version")
    # A list without objects may say null.
    items = answer.get("items", ...)
    items = [] if items is None else items
    if version is None or not isinstance(token, str) or not isinstance(items, list):
        raise ValueError("not a list of objects")
    if not all(isinstance(item, dict) for item in items):
        raise ValueError("an item of the list is not an object")
    # The items of a list have no apiVersion and kind; the list itself has both.
    header = {"apiVersion": resource.api_version, "kind": resource.kind}
    kept = (keep({**header, **item}) for item in items)
    return Page([each for each in kept if each is not None], version, token, len(content))
