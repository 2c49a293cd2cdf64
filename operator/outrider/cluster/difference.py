"""Does a live object already say what we want? Then nothing is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from outrider.cluster.resources import JsonObject

APPLIED_ANNOTATION = "outrider.dev/applied"
"""Digest of the manifest that was last applied; shows fields that are no longer wanted."""


def stamped(manifest: JsonObject) -> JsonObject:
    """The manifest with its own digest as an annotation of the object."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def satisfies(live: object, wanted: object) -> bool:
    """True when every wanted field is there with the wanted value; other fields do not matter.

    Lists must agree in length and order. A value that the API server writes in another form
    (``1000m`` for ``1``) counts as different, which costs one apply without effect.
    """
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            satisfies(live.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(live, list | tuple)
            and len(live) == len(wanted)
            and all(satisfies(have, want) for have, want in zip(live, wanted, strict=True))
        )
    return live == wanted or (live is None and not wanted)
