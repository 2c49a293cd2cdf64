"""A model's dimensions out of the text of its config.json, in the form of the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import JsonValue, ValidationError

from outrider.api.text import shortened
from outrider.api.validation_message import first_validation_message
from outrider.sizing.architecture import Architecture, AttentionLayers, Precision, WeightBytes
from outrider.sizing.config_fields import LayerFields, foreign_fields
from outrider.sizing.layers import PLAIN_TYPES, Attending, Layers, head_size_of, read_layers
from outrider.sizing.quantization import Format, UnknownFormat, read_format

_TEXT_MODELS = ("text_config", "llm_config", "language_config", "transformer_layer_config")
"""Where a model of several kinds of input has its language model."""
_TIED_UNLESS_SAID = ("gemma", "gemma2", "gemma3_text", "gemma4_text", "cohere2")
"""Their config.json may leave `tie_word_embeddings` out, and they tie."""
_QUANTIZATION = "quantization_config"
QUANTIZATION_FILES = ("hf_quant_config.json",)
"""Beside a config.json without that field; ModelOpt writes it."""
_MAX_NAMED = 3
"""Fields in one message."""
UNKNOWN_WEIGHTS = "weights: "
"""Begins what is not known of the bytes of weights, and nothing else."""


class ConfigError(ValueError):
    """Not a config.json that the formulas can use; the message says why and what to do."""


def read_config(text: str, *, name: str, quantization: str | None = None) -> Architecture:
    """The model of a config.json; what of it is not known here stands in `Architecture.unknown`.

    name: what to call it. quantization: the text of a file beside it, of `QUANTIZATION_FILES`.

    Raises:
        ConfigError: no JSON, or a field is missing or no size.
    """
    raw = _json(text, name)
    if quantization is not None and isinstance(raw, dict) and raw.get(_QUANTIZATION) is None:
        raw = {**raw, _QUANTIZATION: _json(quantization, f"the quantisation beside {name}")}
    return read_fields(raw, name=name)


def _json(text: str, name: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not JSON: {error}") from error
    return found


def read_fields(raw: JsonValue, *, name: str) -> Architecture:
    """As `read_config`, of fields that are read already.

    Raises:
        ConfigError: as `read_config`.
    """
    whole = raw if isinstance(raw, dict) else {}
    inner = next((part for key in _TEXT_MODELS if isinstance(part := whole.get(key), dict)), None)
    text: JsonValue = raw if inner is None else inner
    if inner is not None and inner.get("model_type") is None:
        text = {**inner, "model_type": whole.get("model_type")}
    try:
        config = LayerFields.model_validate(text)
    except ValidationError as error:
        complaint = first_validation_message(error, whole="config")
        raise ConfigError(f"{name}: {complaint}{_of_other_layers(text)}") from error
    if inner is not None and config.tied is None and isinstance(whole.get("tie_word_embeddings"), bool):
        config = config.model_copy(update={"tied": whole["tie_word_embeddings"]})
    _check(config, name)
    layers = read_layers(config)
    unknown = [*layers.unknown, *_foreign(text)]
    found = _architecture(config, layers, name)
    places = ((part, key) for part in (whole, inner or {}) for key in (_QUANTIZATION, "compression_config"))
    settings = next((value for part, key in places if (value := part.get(key)) is not None), None)
    try:
        found = _with_format(found, layers, _read_format(settings))
    except UnknownFormat as error:
        unknown.append(f"{UNKNOWN_WEIGHTS}{error}; pass --weights")
    other, odd = _vision(whole)
    return replace(found, other_parameters=other, unknown=(*unknown, *odd))


def _of_other_layers(text: JsonValue) -> str:
    """Why a field may be missing: layers of other kinds have other fields."""
    kind = text.get("model_type") if isinstance(text, dict) else None
    if not isinstance(kind, str) or kind in PLAIN_TYPES:
        return ""
    return f"; the layers of model_type {shortened(kind, 40)} are not known here"


def _foreign(text: JsonValue) -> Iterator[str]:
    found = foreign_fields(text if isinstance(text, dict) else {})
    if found:
        yield f"layers with {', '.join(found[:_MAX_NAMED])}"


def _check(config: LayerFields, name: str) -> None:
    if config.latent is None and head_size_of(config) == 0:
        raise ConfigError(f"{name}: hidden_size is {config.hidden}, and there are {config.heads} heads")
    experts, chosen = config.experts or 1, config.experts_per_token or 1
    if experts > 1 and chosen > experts:
        raise ConfigError(f"{name}: num_experts_per_tok is {chosen}, and there are {experts} experts")
    if config.intermediate is None and (experts <= 1 or config.expert_intermediate is None):
        why = _of_other_layers({"model_type": config.model_type})
        raise ConfigError(f"{name}: config.intermediate_size: is required{why}")


def _architecture(config: LayerFields, layers: Layers, name: str) -> Architecture:
    heads, kv_heads = config.heads, config.kv_heads or config.heads
    size = config.value_size or head_size_of(config) if config.latent is not None else head_size_of(config)
    tied = config.model_type in _TIED_UNLESS_SAID if config.tied is None else config.tied
    sparse = bool(layers.sparse)
    wide = config.intermediate or config.expert_intermediate or 1
    expert = config.expert_intermediate or wide
    shared = config.shared_intermediate
    if shared is None:
        shared = (config.shared_experts or 0) * expert
    if config.model_type == "llama4_text":
        shared = wide  # One expert of its own width that every token passes; no field says so.
    elif config.experts_beside_mlp:
        shared = wide
    return Architecture(
        name,
        config.layers,
        config.hidden,
        heads,
        kv_heads,
        size,
        expert if sparse else wide,
        config.vocabulary,
        tied,
        (config.experts or 1) if sparse else 1,
        (config.experts_per_token or 1) if sparse else 1,
        attention=_kinds(layers),
        dense_layers=len(layers.dense) if sparse else 0,
        dense_intermediate=(config.dense_intermediate or wide) if sparse else 0,
        shared_intermediate=shared if sparse else 0,
    )


def _kinds(layers: Layers) -> tuple[AttentionLayers, ...]:
    return tuple(each.kind for each in layers.attention)


def _read_format(settings: JsonValue) -> Format:
    if settings is None:
        return read_format(None)
    if not isinstance(settings, dict):
        raise UnknownFormat("quantization_config")
    return read_format(settings)


def _with_format(found: Architecture, layers: Layers, width: Format) -> Architecture:
    """With the bytes of each part, as the modules of its layers have them."""
    if width.precision is Precision.BF16:
        return found
    part = WeightBytes(
        attention=width.mean(each for kind in layers.attention for each in _attention_modules(kind)),
        mlp=width.mean(_mlp_modules(found, layers)),
        experts=width.mean(_expert_modules(layers)),
        output=2.0 if found.tied else width.width("lm_head"),
    )
    main = part.experts if layers.sparse else part.mlp
    if main == Precision.BF16.bytes:
        raise UnknownFormat(f"which modules are in {width.precision}")
    return replace(found, precision=width.precision, weight_bytes_by_part=part)


def _attention_modules(kind: Attending) -> Iterator[tuple[str, int]]:
    for index in kind.indices:
        for projection, weights in kind.projections.items():
            yield f"layers.{index}.{kind.module}.{projection}", weights


def _mlp_modules(found: Architecture, layers: Layers) -> Iterator[tuple[str, int]]:
    """MLP modules of dense layers, and of the experts that every token passes."""
    dense = found.dense_intermediate if layers.sparse else found.intermediate
    for index in layers.dense:
        for projection in ("gate_proj", "up_proj", "down_proj"):
            yield f"layers.{index}.mlp.{projection}", found.hidden * dense
    if found.shared_intermediate:
        for index in layers.sparse:
            for projection in ("gate_proj", "up_proj", "down_proj"):
                yield (
                    f"layers.{index}.{layers.shared_module}.{projection}",
                    found.hidden * found.shared_intermediate,
                )


def _expert_modules(layers: Layers) -> Iterator[tuple[str, int]]:
    """One of each layer stands for all."""
    for index in layers.sparse:
        for projection in ("gate_proj", "up_proj", "down_proj"):
            yield f"layers.{index}.{layers.expert_module}.0.{projection}", 1


def _vision(whole: Mapping[str, JsonValue]) -> tuple[int, list[str]]:
    """Weights of a vision tower, a transformer whose MLP is not gated; and what is not known of it."""
    if isinstance(whole.get("audio_config"), dict):
        return 0, ["the size of the audio tower (audio_config)"]
    tower = whole.get("vision_config")
    if not isinstance(tower, dict) or not tower:
        return 0, []
    sizes = [
        next((n for key in keys if isinstance(n := tower.get(key), int) and 0 < n <= 1_000_000), None)
        for keys in (
            ("num_hidden_layers", "depth", "vt_num_hidden_layers"),
            ("hidden_size", "vt_hidden_size"),
            ("intermediate_size", "vt_intermediate_size"),
        )
    ]
    if None in sizes:
        return 0, ["the size of the vision tower (vision_config)"]
    layers, hidden, intermediate = (size or 0 for size in sizes)
    return layers * (4 * hidden * hidden + 2 * hidden * intermediate), []
