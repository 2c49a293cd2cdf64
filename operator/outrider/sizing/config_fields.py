"""The fields of a config.json that say what a model's layers are, in the form of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue

_MOST = 10_000_000
_MAX_LAYERS = 10_000

Size = Annotated[int, Field(ge=1, le=_MOST)]
Count = Annotated[int, Field(ge=0, le=_MOST)]


class LayerFields(BaseModel):
    """Fields of the text model; others are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    model_type: str | None = None
    layers: Annotated[int, Field(alias="num_hidden_layers", ge=1, le=_MAX_LAYERS)]
    hidden: Size = Field(alias="hidden_size")
    heads: Size = Field(alias="num_attention_heads")
    kv_heads: Size | None = Field(None, alias="num_key_value_heads")
    head_size: Size | None = Field(None, alias="head_dim")
    intermediate: Size | None = Field(None, alias="intermediate_size")
    vocabulary: Size = Field(alias="vocab_size")
    tied: bool | None = Field(None, alias="tie_word_embeddings")

    # Which layer attends in which way.
    layer_types: list[str] | None = None
    full_attention_interval: Size | None = None
    sliding_window: Count | None = None
    use_sliding_window: bool | None = None
    max_window_layers: Count | None = None
    window_pattern: int | str | None = Field(
        None, validation_alias=AliasChoices("sliding_window_pattern", "_sliding_window_pattern")
    )
    chunk: Size | None = Field(None, alias="attention_chunk_size")
    no_rope_layers: list[int] | None = None
    output_gate: bool | None = Field(None, alias="attn_output_gate")
    global_head_size: Size | None = Field(None, alias="global_head_dim")
    global_kv_heads: Size | None = Field(None, alias="num_global_key_value_heads")
    values_are_keys: bool | None = Field(None, alias="attention_k_eq_v")

    # Linear attention: gated delta nets.
    linear_key_heads: Size | None = Field(None, alias="linear_num_key_heads")
    linear_value_heads: Size | None = Field(None, alias="linear_num_value_heads")
    linear_key_size: Size | None = Field(None, alias="linear_key_head_dim")
    linear_value_size: Size | None = Field(None, alias="linear_value_head_dim")
    linear_kernel: Size | None = Field(None, alias="linear_conv_kernel_dim")
    state_type: str | None = Field(None, alias="mamba_ssm_dtype")

    # Latent attention.
    latent: Size | None = Field(None, alias="kv_lora_rank")
    latent_queries: Size | None = Field(None, alias="q_lora_rank")
    rope_size: Size | None = Field(None, alias="qk_rope_head_dim")
    nope_size: Size | None = Field(None, alias="qk_nope_head_dim")
    value_size: Size | None = Field(None, alias="v_head_dim")
    index_heads: Size | None = Field(None, alias="index_n_heads")
    index_size: Size | None = Field(None, alias="index_head_dim")

    # Experts.
    experts: Count | None = Field(
        None,
        validation_alias=AliasChoices(
            "num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"
        ),
    )
    experts_per_token: Count | None = Field(
        None,
        validation_alias=AliasChoices(
            "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k"
        ),
    )
    expert_intermediate: Size | None = Field(None, alias="moe_intermediate_size")
    shared_experts: Count | None = Field(
        None, validation_alias=AliasChoices("n_shared_experts", "moe_num_shared_experts")
    )
    shared_intermediate: Count | None = Field(
        None,
        validation_alias=AliasChoices("shared_expert_intermediate_size", "shared_intermediate_size"),
    )
    first_dense: Count | None = Field(None, alias="first_k_dense_replace")
    sparse_step: Size | None = Field(None, alias="decoder_sparse_step")
    mlp_only_layers: list[int] | None = None
    interleave_step: Size | None = Field(None, alias="interleave_moe_layer_step")
    moe_layers: list[int] | None = None
    expert_layer_frequency: int | list[int] | None = Field(None, alias="moe_layer_freq")
    mlp_layer_types: list[str] | None = None
    dense_intermediate: Size | None = Field(None, alias="intermediate_size_mlp")
    experts_beside_mlp: bool | None = Field(None, alias="enable_moe_block")


_FOREIGN = (
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "layers_block_type",
    "block_types",
    "attn_layer_period",
    "attn_layer_indices",
    "linear_attn_config",
    "compress_ratios",
    "cross_attention_layers",
    "block_configs",
    "num_kv_shared_layers",
    "hidden_size_per_layer_input",
    "use_double_wide_mlp",
    "expert_dtype",
    "zero_expert_num",
    "sparse_attention_config",
)
"""Fields of layers of kinds that are not known here, wherever they say something."""
_FOREIGN_WORDS = ("mamba", "ssm", "rwkv", "conv_l_cache", "lightning", "recurrent", "lru_width", "altup")
_NOT_FOREIGN = ("mamba_ssm_dtype",)
_FULL_ATTENTION = 1
"""In MiniMax's `attn_type_list`."""


def foreign_fields(raw: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Those that speak of layers that are not known here."""
    found = [name for name in _FOREIGN if raw.get(name)]
    found += [
        name
        for name, value in raw.items()
        if value
        and name not in _NOT_FOREIGN
        and name not in found
        and any(word in name.lower() for word in _FOREIGN_WORDS)
    ]
    kinds = raw.get("attn_type_list")
    if isinstance(kinds, list) and any(kind != _FULL_ATTENTION for kind in kinds):
        found.append("attn_type_list")
    return tuple(found)
