"""The part of a foreign object that stays in memory: the fields in use, and a digest. Pure."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pydantic import BaseModel

from outrider.api.resource import GROUP
from outrider.cluster.objects import Metadata
from outrider.cluster.ownership import MANAGER, TUNER_MANAGER
from outrider.cluster.resources import JsonObject

_MAX_CONTENT_BYTES = 64 * 2**10
"""Maximum JSON size that is kept. A larger object is read again to compare it; ours are far smaller."""
_MAX_TEXT = 64 * 2**10
"""Maximum characters of one entry of a ConfigMap. Orders and schedules take some hundreds."""
_SERVERS_OWN = ("managedFields", "resourceVersion", "generation")
"""Metadata that the server sets, and that every write changes."""


def lean_metadata(raw: JsonObject) -> Metadata:
    """Metadata with only Outrider's annotations and field managers.

    Raises:
        ValueError, TypeError, AttributeError: the metadata is missing or cannot be parsed.
    """
    metadata = dict(raw["metadata"])
    metadata["annotations"] = own_annotations(metadata.get("annotations"))
    managers = metadata.get("managedFields") or ()
    metadata["managedFields"] = [
        each for each in managers if each.get("manager") in (MANAGER, TUNER_MANAGER)
    ][:8]
    return Metadata.model_validate(metadata)


def own_annotations(annotations: Mapping[str, object] | None) -> dict[str, object]:
    """The annotations with Outrider's prefix."""
    return {name: text for name, text in (annotations or {}).items() if name.startswith(f"{GROUP}/")}


def texts(data: Mapping[str, object] | None, *names: str) -> dict[str, str]:
    """These entries of a ConfigMap. An entry that is far too long is cut, so that its parser refuses it."""
    given = data or {}
    return {name: str(given[name])[:_MAX_TEXT] for name in names if name in given}


@lru_cache(maxsize=4096)
def _shared(names: frozenset[str]) -> set[str]:
    return set(names)


def share_field_names(parsed: object) -> None:
    """Let parsed objects that were given the same fields share one set of their names.

    pydantic keeps a set for each object, of 200 to 700 bytes. The objects are frozen, so no set changes.
    Parts of an object that shares its set already do so, too.
    """
    waiting = [parsed]
    while waiting:
        found = waiting.pop()
        if isinstance(found, BaseModel):
            own = found.__pydantic_fields_set__
            shared = _shared(frozenset(own))
            if own is not shared:
                object.__setattr__(found, "__pydantic_fields_set__", shared)
                waiting += found.__dict__.values()
        elif isinstance(found, list | tuple):
            waiting += found
        elif isinstance(found, dict):
            waiting += found.values()


@dataclass(frozen=True, slots=True)
class Content:
    """The part of an object that a manifest can set: all but its status and the server's metadata.

    packed: the content; None if it is too large, or if its digest is enough.
    """

    digest: str
    packed: bytes | None

    @classmethod
    def of(cls, raw: JsonObject) -> Content:
        """The content of an object as read from the API server."""
        metadata = {name: value for name, value in raw["metadata"].items() if name not in _SERVERS_OWN}
        wanted = {name: value for name, value in raw.items() if name != "status"}
        text = json.dumps({**wanted, "metadata": metadata}, sort_keys=True).encode()
        packed = zlib.compress(text, 1) if len(text) <= _MAX_CONTENT_BYTES else None
        return cls(_digest(text), packed)

    def unpacked(self) -> JsonObject | None:
        """The content; None if it is not kept."""
        if self.packed is None:
            return None
        content: JsonObject = json.loads(zlib.decompress(self.packed))
        return content

    @property
    def known(self) -> Content:
        """The same content with its digest only."""
        return Content(self.digest, None)


def json_digest(value: object) -> str:
    """Digest of a JSON value, whatever the order of its keys."""
    return _digest(json.dumps(value, sort_keys=True).encode())


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]


def footprint(value: object, *, most: int) -> int:
    """Bytes of a JSON value in memory, as Python counts them. The count stops beyond ``most``."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        found = waiting.pop()
        size += sys.getsizeof(found)
        if isinstance(found, dict):
            waiting += found.keys()
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
    return size


class NamespaceBudgets:
    """Memory in bytes by namespace, so that a tenant with much data does not displace another one.

    most: limit of each namespace.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._used: defaultdict[str, int] = defaultdict(int)

    def take(self, namespace: str, size: int) -> bool:
        """Take memory for a namespace. Returns False, and takes none, beyond the limit."""
        if self._used[namespace] + size > self.most:
            return False
        self._used[namespace] += size
        return True

    def give_back(self, namespace: str, size: int) -> None:
        """Return memory that was taken before."""
        self._used[namespace] -= size
        if self._used[namespace] <= 0:
            del self._used[namespace]

    def used(self, namespace: str) -> int:
        """Bytes in use by a namespace."""
        return self._used.get(namespace, 0)
