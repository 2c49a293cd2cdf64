"""A model's dimensions out of the text of its config.json, in the form of the Hugging Face hub."""

from __future__ import annotations

import json

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outrider.api.complaint import first_complaint
from outrider.sizing.architecture import Architecture, Precision


class ConfigError(ValueError):
    """Not a config.json that the formulas can use; the message says why and what to do."""


_MOST = 10_000_000


class _Quantization(BaseModel):
    model_config = ConfigDict(extra="allow")

    quant_method: str = ""
    bits: int | None = None
    config_groups: JsonValue = None


class _Config(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    layers: int = Field(alias="num_hidden_layers", ge=1, le=_MOST)
    hidden: int = Field(alias="hidden_size", ge=1, le=_MOST)
    heads: int = Field(alias="num_attention_heads", ge=1, le=_MOST)
    kv_heads: int | None = Field(None, alias="num_key_value_heads", ge=1, le=_MOST)
    head_size: int | None = Field(None, alias="head_dim", ge=1, le=_MOST)
    intermediate: int = Field(alias="intermediate_size", ge=1, le=_MOST)
    vocabulary: int = Field(alias="vocab_size", ge=1, le=_MOST)
    tied: bool = Field(False, alias="tie_word_embeddings")
    experts: int | None = Field(
        None,
        validation_alias=AliasChoices(
            "num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"
        ),
        ge=1,
        le=_MOST,
    )
    experts_per_token: int | None = Field(
        None,
        validation_alias=AliasChoices(
            "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k"
        ),
        ge=1,
        le=_MOST,
    )
    expert_intermediate: int | None = Field(None, alias="moe_intermediate_size", ge=1, le=_MOST)
    compressed_cache: int | None = Field(None, alias="kv_lora_rank")
    quantization: _Quantization | None = Field(None, alias="quantization_config")


def read_config(text: str, *, name: str) -> Architecture:
    """The model of a config.json.

    name: what to call it.

    Raises:
        ConfigError: no JSON, a field is missing or no size, or attention of a kind that is not known here.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not JSON: {error}") from error
    if isinstance(raw, dict) and isinstance(raw.get("text_config"), dict):
        raw = {**raw["text_config"], "quantization_config": raw.get("quantization_config")}
    try:
        found = _Config.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{name}: {first_complaint(error, whole='config')}") from error
    if found.compressed_cache is not None:
        raise ConfigError(f"{name}: kv_lora_rank: latent attention is not known here; use another model")
    head_size = found.head_size or found.hidden // found.heads
    if head_size == 0:
        raise ConfigError(f"{name}: hidden_size is {found.hidden}, and there are {found.heads} heads")
    experts = found.experts or 1
    chosen = found.experts_per_token or 1 if experts > 1 else 1
    if chosen > experts:
        raise ConfigError(f"{name}: num_experts_per_tok is {chosen}, and there are {experts} experts")
    return Architecture(
        name,
        found.layers,
        found.hidden,
        found.heads,
        found.kv_heads or found.heads,
        head_size,
        (found.expert_intermediate or found.intermediate) if experts > 1 else found.intermediate,
        found.vocabulary,
        found.tied,
        experts,
        chosen,
        _precision(found.quantization),
    )


def _precision(quantization: _Quantization | None) -> Precision:
    if quantization is None:
        return Precision.BF16
    method = quantization.quant_method.lower()
    if method == "compressed-tensors":
        return Precision.INT4 if '"num_bits": 4' in json.dumps(quantization.config_groups) else Precision.FP8
    if method in ("awq", "gptq") or quantization.bits == 4:
        return Precision.INT4
    return Precision.FP8 if "fp8" in method or quantization.bits == 8 else Precision.BF16
