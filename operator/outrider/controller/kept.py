"""What stays in memory of an object that anybody may have written: what is used, and a digest. Pure."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from outrider.api.resource import GROUP
from outrider.cluster.objects import Metadata
from outrider.cluster.ownership import MANAGER, TUNER_MANAGER
from outrider.cluster.resources import JsonObject

_LARGEST_CONTENT_BYTES = 64 * 2**10
"""Of JSON. A larger object is fetched when it is compared; those of Outrider are far smaller."""
_LARGEST_TEXT = 64 * 2**10
"""Characters of one entry of a ConfigMap. Orders and tables take some hundreds."""
_SERVERS_OWN = ("managedFields", "resourceVersion", "generation")
"""Metadata that no manifest asks for and that every write changes."""


def lean_metadata(raw: JsonObject) -> Metadata:
    """Metadata with Outrider's own annotations and field managers alone.

    Raises:
        ValueError, TypeError, AttributeError: no metadata, or none that can be read.
    """
    metadata = dict(raw["metadata"])
    metadata["annotations"] = own_annotations(metadata.get("annotations"))
    managers = metadata.get("managedFields") or ()
    metadata["managedFields"] = [
        each for each in managers if each.get("manager") in (MANAGER, TUNER_MANAGER)
    ][:8]
    return Metadata.model_validate(metadata)


def own_annotations(annotations: Mapping[str, object] | None) -> dict[str, object]:
    """Those with Outrider's prefix."""
    return {name: text for name, text in (annotations or {}).items() if name.startswith(f"{GROUP}/")}


def texts(data: Mapping[str, object] | None, *names: str) -> dict[str, str]:
    """These entries of a ConfigMap. What is far too long for its reader is cut, so that it cannot be read."""
    given = data or {}
    return {name: str(given[name])[:_LARGEST_TEXT] for name in names if name in given}


@dataclass(frozen=True, slots=True)
class Content:
    """What a manifest may ask for: all of an object but its status and what the server keeps for itself.

    packed: the content, None where it is too large to be kept or is known by its digest.
    """

    digest: str
    packed: bytes | None

    @classmethod
    def of(cls, raw: JsonObject) -> Content:
        """The content of an object as the API server shows it."""
        metadata = {name: value for name, value in raw["metadata"].items() if name not in _SERVERS_OWN}
        wanted = {name: value for name, value in raw.items() if name != "status"}
        text = json.dumps({**wanted, "metadata": metadata}, sort_keys=True).encode()
        packed = zlib.compress(text, 1) if len(text) <= _LARGEST_CONTENT_BYTES else None
        return cls(hashlib.sha256(text).hexdigest()[:32], packed)

    def unpacked(self) -> JsonObject | None:
        """The content, where it is kept."""
        if self.packed is None:
            return None
        content: JsonObject = json.loads(zlib.decompress(self.packed))
        return content

    @property
    def known(self) -> Content:
        """Only the digest."""
        return Content(self.digest, None)


def footprint(value: object, *, most: int) -> int:
    """Bytes that a JSON value takes in memory, as Python counts them. Beyond ``most`` the count ends."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        found = waiting.pop()
        size += sys.getsizeof(found)
        if isinstance(found, Mapping):
            waiting += found.keys()
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
    return size


class NamespaceBudgets:
    """Bytes in memory, by namespace: a tenant that stores much keeps nothing of another one out.

    most: for each namespace.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._used: defaultdict[str, int] = defaultdict(int)

    def take(self, namespace: str, size: int) -> bool:
        """Count it, where it still fits."""
        if self._used[namespace] + size > self.most:
            return False
        self._used[namespace] += size
        return True

    def give_back(self, namespace: str, size: int) -> None:
        """Of something that was taken before."""
        self._used[namespace] -= size
        if self._used[namespace] <= 0:
            del self._used[namespace]

    def used(self, namespace: str) -> int:
        """Bytes that are taken."""
        return self._used.get(namespace, 0)
