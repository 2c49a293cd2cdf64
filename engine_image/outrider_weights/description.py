"""What config.json says about weights, as far as a drafter must fit its target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_INNER = ("text_config", "transformer_layer_config")
"""Of models with more than text, and of drafters in the Speculators format."""

_FIELDS = {
    "vocabularySize": "vocab_size",
    "hiddenSize": "hidden_size",
    "layers": "num_hidden_layers",
    "targetHiddenSize": "target_hidden_size",
}


def describe(folder: Path) -> dict[str, int]:
    """The sizes that are told; those that are not are left out, and all of them where nothing is readable."""
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(raw, dict):
        return {}
    found = {name: _size(raw, key) for name, key in _FIELDS.items()}
    return {name: size for name, size in found.items() if size is not None}


def _size(raw: Mapping[str, object], key: str) -> int | None:
    parts = (raw, *(raw.get(inner) for inner in _INNER))
    sizes = (part.get(key) for part in parts if isinstance(part, Mapping))
    return next((size for size in sizes if type(size) is int and size > 0), None)
