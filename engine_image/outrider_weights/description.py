"""What weights say of themselves, as far as a drafter must fit its target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

_INNER = ("text_config", "transformer_layer_config")
"""Keys of models with more than text, and of drafters in the Speculators format."""

_FIELDS = {
    "vocabularySize": "vocab_size",
    "hiddenSize": "hidden_size",
    "layers": "num_hidden_layers",
    "targetHiddenSize": "target_hidden_size",
    "longestContext": "max_position_embeddings",
}
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
"""Source: vLLM 0.32, ``ModelArchConfigConvertorBase.get_num_experts``. Without one, layers count."""
_LAYERS = ("layer_types", "layers_block_type")
_MAX_WORD = 32
_MAX_NAME = 64
_MAX_KINDS = 8
_DIGEST_DIGITS = 12


def describe(folder: Path) -> dict[str, int | str]:
    """What the file says. Absent facts are left out, and all of them where nothing is readable."""
    raw = _read(folder / "config.json")
    found: dict[str, int | str | None] = {name: _size(raw, key) for name, key in _FIELDS.items()}
    experts = (value for key in _EXPERTS if (value := _size(raw, key)) is not None)
    found["experts"] = next(experts, None) or _experts_of_layers(raw)
    found["madeForMethod"] = _word(raw.get("speculators_model_type"))
    found["madeForTokens"] = _speculated(raw)
    found["chatTemplate"] = _chat_template(folder)
    found["architecture"] = _architecture(raw)
    found["layerKinds"] = _layer_kinds(raw)
    return {name: value for name, value in found.items() if value is not None}


def _read(path: Path) -> Mapping[str, object]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return raw if isinstance(raw, dict) else {}


def _word(value: object, longest: int = _MAX_WORD) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= longest and value.isascii() else None


def _architecture(raw: Mapping[str, object]) -> str | None:
    """vLLM takes the first that it knows; weights name one."""
    value = raw.get("architectures")
    return _word(value[0], _MAX_NAME) if isinstance(value, list) and value else None


def _layer_kinds(raw: Mapping[str, object]) -> str | None:
    """Each kind once, in alphabetical order; of the text model, where there are others."""
    for part in _parts(raw):
        value = next((part[key] for key in _LAYERS if isinstance(part.get(key), list)), None)
        if isinstance(value, list):
            kinds = {word for kind in value if (word := _word(kind)) is not None and "," not in word}
            return ",".join(sorted(kinds)[:_MAX_KINDS]) or None
    return None


def _speculated(raw: Mapping[str, object]) -> int | None:
    """Tokens of a draft; vLLM takes those of the first proposal method, too."""
    value = raw.get("speculators_config")
    methods = value.get("proposal_methods") if isinstance(value, Mapping) else None
    first = methods[0] if isinstance(methods, list) and methods else None
    return _whole(first.get("speculative_tokens")) if isinstance(first, Mapping) else None


def _experts_of_layers(raw: Mapping[str, object]) -> int | None:
    """Where layers differ, those of the layer with most."""
    lists = [value for part in _parts(raw) if isinstance(value := part.get("block_configs"), list)]
    layers = [layer for value in lists for layer in value if isinstance(layer, Mapping)]
    sizes = [size for layer in layers if (size := _whole(layer.get("n_routed_experts"))) is not None]
    return max(sizes, default=None)


def _chat_template(folder: Path) -> str | None:
    """Digest of the template, which stands in a file of its own or in the tokenizer's."""
    try:
        text: object = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = _read(folder / "tokenizer_config.json").get("chat_template")
    if not isinstance(text, str):
        return None
    return hashlib.sha256(text.strip().encode()).hexdigest()[:_DIGEST_DIGITS]


def _parts(raw: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [part for part in (raw, *(raw.get(inner) for inner in _INNER)) if isinstance(part, Mapping)]


def _size(raw: Mapping[str, object], key: str) -> int | None:
    sizes = (part.get(key) for part in _parts(raw))
    return next((size for value in sizes if (size := _whole(value)) is not None), None)


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
