"""Comparison of a live object with its manifest, so that the operator writes only differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from outrider.cluster.resources import JsonObject

APPLIED_ANNOTATION = "outrider.dev/applied"
"""Digest of the last applied manifest; reveals fields that the manifest no longer contains."""


def stamped(manifest: JsonObject) -> JsonObject:
    """Return the manifest with its own digest as an annotation."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def satisfies(live: object, wanted: object) -> bool:
    """Return True if every field of the manifest has the same value in the object.

    Other fields of the object do not matter. Lists must agree in length and order. A value that the API
    server writes in another form (``1000m`` for ``1``) differs, which costs one apply without effect.
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
