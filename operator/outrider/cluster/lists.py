"""Lists of the API server, read page by page, with limits on their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from outrider.cluster.errors import Expired, TooLarge
from outrider.cluster.objects import version_number
from outrider.cluster.resources import JsonObject, Resource

KeptT = TypeVar("KeptT")
AnswerT = TypeVar("AnswerT")

_PAGE_OBJECTS = 128
_LISTS_BEGUN = 3
"""Attempts at one list, if the server drops it before the last page."""


@dataclass(frozen=True, slots=True)
class ListBounds:
    """Limits in bytes.

    page_bytes: for a larger page, the request is repeated with fewer objects.
    answer_bytes: of a page with one object.
    list_bytes: of the whole list; None for no limit.
    """

    page_bytes: int
    answer_bytes: int
    list_bytes: int | None = None


class GetPage(Protocol):
    """One GET request."""

    async def __call__(
        self, path: str, read: Callable[[bytes], AnswerT], query: list[tuple[str, str]], most_bytes: int, /
    ) -> AnswerT:
        """Return what ``read`` makes of the answer."""


@dataclass(frozen=True, slots=True)
class Page(Generic[KeptT]):
    """The kept part of one page.

    version: of the whole list. token: requests the next page; empty at the end. size: bytes of JSON.
    """

    kept: list[KeptT]
    version: int
    token: str
    size: int


async def read_list(
    get: GetPage,
    resource: Resource,
    namespace: str | None,
    keep: Callable[[JsonObject], KeptT | None],
    labels: str | None,
    fields: str | None,
    bounds: ListBounds,
) -> tuple[list[KeptT], int]:
    """Return the kept objects of a list and its resource version. labels, fields: selectors.

    Raises:
        TooLarge: one object or the whole list exceeds its limit.
        Expired: the server dropped the rest of the list several times.
    """
    selectors = [("labelSelector", labels), ("fieldSelector", fields)]
    query = [(name, text) for name, text in selectors if text is not None]
    for _ in range(_LISTS_BEGUN - 1):
        try:
            return await _read_pages(get, resource, resource.path(namespace), keep, query, bounds)
        except Expired:
            continue
    return await _read_pages(get, resource, resource.path(namespace), keep, query, bounds)


async def _read_pages(
    get: GetPage,
    resource: Resource,
    path: str,
    keep: Callable[[JsonObject], KeptT | None],
    query: list[tuple[str, str]],
    bounds: ListBounds,
) -> tuple[list[KeptT], int]:
    def read(content: bytes) -> Page[KeptT]:
        return read_page(content, resource, keep)

    kept: list[KeptT] = []
    limit, size, token = _PAGE_OBJECTS, 0, ""
    while True:
        asked = [*query, ("limit", str(limit)), *([("continue", token)] if token else [])]
        most = bounds.page_bytes if limit > 1 else bounds.answer_bytes
        try:
            page = await get(path, read, asked, most)
        except TooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // 4)
            continue
        size += page.size
        if bounds.list_bytes is not None and size > bounds.list_bytes:
            raise TooLarge(f"the list of {resource.plural} is larger than {bounds.list_bytes} bytes")
        kept += page.kept
        if not page.token:
            return kept, page.version
        token = page.token
        if 4 * page.size < bounds.page_bytes:
            limit = min(2 * limit, _PAGE_OBJECTS)


def read_page(content: bytes, resource: Resource, keep: Callable[[JsonObject], KeptT | None]) -> Page[KeptT]:
    """Parse one page, and keep only the result of ``keep`` for each object.

    Raises:
        ValueError, RecursionError: the page is not a list of objects.
    """
    match json.loads(content):
        case {"metadata": {"resourceVersion": str(text), **about}, **answer}:
            version, token = version_number(text), about.get("continue") or ""
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
