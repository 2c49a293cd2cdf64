"""What the layers of a model are, out of its config.json: how each attends, and which have experts. Pure.

Sizes of the cache are those of vLLM. Latent attention has compressed keys and values with the rotated
part of a key. Linear attention has one state per request. Unknown kinds are reported, and never taken for
full attention or for a dense layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from outrider.sizing.architecture import CACHE_BYTES, AttentionLayers
from outrider.sizing.config_fields import LayerFields

FULL, SLIDING, CHUNKED, LINEAR = (
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "linear_attention",
)
_INDEXED = ("indexed_attention", "deepseek_sparse_attention")
"""Latent attention to the tokens that an index chooses; the cache has all of them."""
_INDEX_SCALES = 4 / 128
"""Bytes of scales per byte of the index of sparse latent attention, which is in 8 bits."""
_STATE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

# fmt: off
PLAIN_TYPES = frozenset((
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "granite",
    "glm4", "glm4_moe", "olmo2", "olmo3", "seed_oss", "smollm3", "minimax_m2", "exaone4",
    "cohere2", "gemma", "gemma2", "gemma3_text", "gemma4_text", "gpt_oss", "llama4_text",
    "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen2_5_vl_text", "qwen3_vl_text",
    "qwen3_vl_moe_text", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa",
    "glm4_moe_lite",
))
# fmt: on
"""Values of `model_type` whose layers are what these fields say. Others were not checked."""
_EVERY_SIXTH, _EVERY_FOURTH, _EVERY_SECOND = 6, 4, 2
_PATTERNS = {"gemma3_text": _EVERY_SIXTH, "cohere2": _EVERY_FOURTH, "gemma2": _EVERY_SECOND}
_PATTERNS |= {"gpt_oss": _EVERY_SECOND}
"""Each so-manieth layer has full attention where the config does not list them."""
_ALL_SLIDING = ("mistral", "mixtral", "ministral", "phi3")
_SHARED = dict.fromkeys(("qwen2", "qwen3", "llama4"), "mlp.shared_expert")
"""By the first word of `model_type`."""
_WINDOW_IS_OPTIONAL = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
"""Their window is used only where `use_sliding_window` says so."""


@dataclass(frozen=True, slots=True)
class Attending:
    """Layers that attend in the same way, and their weights by name."""

    kind: AttentionLayers
    indices: tuple[int, ...]
    module: str
    projections: Mapping[str, int]  # weights of each, in one layer


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one model, by kind."""

    attention: tuple[Attending, ...]
    dense: tuple[int, ...]  # with one MLP
    sparse: tuple[int, ...]  # with experts
    expert_module: str  # of a layer
    shared_module: str  # that every token passes beside its experts
    unknown: tuple[str, ...]


def read_layers(config: LayerFields) -> Layers:
    """Every layer, in its kinds. config: with the dimensions that a model must have."""
    kinds, unknown = _attention_of_layers(config)
    found = [
        _attending(config, kind, tuple(i for i, each in enumerate(kinds) if each == kind))
        for kind in dict.fromkeys(kinds)
    ]
    sparse, odd = _sparse(config)
    dense = tuple(i for i in range(config.layers) if i not in set(sparse))
    if config.model_type is not None and config.model_type not in PLAIN_TYPES:
        odd = [*odd, f"the layers of model_type {config.model_type}"]
    beside = bool(config.experts_beside_mlp)
    shared = (
        "mlp" if beside else _SHARED.get((config.model_type or "").partition("_")[0], "mlp.shared_experts")
    )
    experts = "experts" if beside else "mlp.experts"
    return Layers(tuple(found), dense, sparse, experts, shared, (*unknown, *odd))


def _attention_of_layers(config: LayerFields) -> tuple[list[str], list[str]]:
    listed = config.layer_types
    if listed is not None:
        if len(listed) != config.layers:
            return [FULL] * config.layers, [f"layer_types of {len(listed)} for {config.layers} layers"]
        if config.latent is not None:
            listed = [FULL if kind in _INDEXED else kind for kind in listed]
        known = {FULL, SLIDING, CHUNKED, LINEAR}
        others = sorted(set(listed) - known)
        unknown = [f"layers of type {name}" for name in others]
        kinds = [kind if kind in known else FULL for kind in listed]
    else:
        kinds, unknown = list(_attention_by_rule(config)), []
    if len(kinds) != config.layers:
        return [FULL] * config.layers, ["which layers have the sliding window"]
    if SLIDING in kinds and not config.sliding_window:
        unknown.append("sliding_attention without sliding_window")
    if CHUNKED in kinds and config.chunk is None:
        unknown.append("chunked_attention without attention_chunk_size")
    if LINEAR in kinds and None in _linear_sizes(config):
        unknown.append("linear_attention without the sizes of its heads")
    if config.latent is not None and (set(kinds) != {FULL} or None in _latent_sizes(config)):
        unknown.append("latent attention (kv_lora_rank) without the sizes of its heads")
    return kinds, unknown


def _attention_by_rule(config: LayerFields) -> Iterator[str]:
    """Where `layer_types` does not list them; fewer than there are layers: not known."""
    kind, layers = config.model_type, range(config.layers)
    if config.full_attention_interval is not None:
        yield from (FULL if (i + 1) % config.full_attention_interval == 0 else LINEAR for i in layers)
    elif config.linear_key_heads is not None:
        return
    elif config.chunk is not None:
        if config.no_rope_layers is not None and len(config.no_rope_layers) == config.layers:
            yield from (CHUNKED if rotated else FULL for rotated in config.no_rope_layers)
        else:
            yield from (FULL if (i + 1) % _EVERY_FOURTH == 0 else CHUNKED for i in layers)
    elif (
        not config.sliding_window
        or config.use_sliding_window is False
        or (kind in _WINDOW_IS_OPTIONAL and not config.use_sliding_window)
    ):
        yield from (FULL for _ in layers)
    elif kind in _WINDOW_IS_OPTIONAL:
        first = config.max_window_layers or 0
        yield from (SLIDING if i >= first else FULL for i in layers)
    elif kind in _ALL_SLIDING:
        yield from (SLIDING for _ in layers)
    else:
        yield from _by_pattern(config.window_pattern or _PATTERNS.get(kind or ""), config.layers)


def _by_pattern(pattern: int | str | None, layers: int) -> Iterator[str]:
    """An interval, or letters such as LLLG, which repeat."""
    if isinstance(pattern, int) and pattern > 0:
        yield from (FULL if (i + 1) % pattern == 0 else SLIDING for i in range(layers))
    elif isinstance(pattern, str) and set(pattern) <= {"L", "G"} and pattern:
        yield from (SLIDING if pattern[i % len(pattern)] == "L" else FULL for i in range(layers))


def _attending(config: LayerFields, kind: str, indices: tuple[int, ...]) -> Attending:
    count = len(indices)
    if config.latent is not None:
        return _latent(config, count, indices)
    if kind == LINEAR:
        return _linear(config, count, indices)
    window = {SLIDING: config.sliding_window or None, CHUNKED: config.chunk}.get(kind)
    grouped = _grouped(config, count, indices, whole=kind == FULL)
    return replace(grouped, kind=replace(grouped.kind, window=window))


def _grouped(config: LayerFields, count: int, indices: tuple[int, ...], *, whole: bool) -> Attending:
    heads, hidden = config.heads, config.hidden
    size = (config.global_head_size if whole else None) or head_size_of(config)
    kv_heads = (config.global_kv_heads if whole else None) or config.kv_heads or heads
    # Layers of full attention that have their own sizes share keys and values, if any do.
    shared = bool(config.values_are_keys) and whole
    gated = bool(config.output_gate) or config.linear_key_heads is not None
    projections = {
        "q_proj": hidden * heads * size * (2 if gated else 1),
        "k_proj": hidden * kv_heads * size,
        "v_proj": 0 if shared else hidden * kv_heads * size,
        "o_proj": heads * size * hidden,
    }
    cached = float(2 * kv_heads * size * CACHE_BYTES)
    kind = AttentionLayers(count, sum(projections.values()), cached, kv_heads)
    return Attending(kind, indices, "self_attn", projections)


def _linear_sizes(config: LayerFields) -> tuple[int | None, ...]:
    return (
        config.linear_key_heads,
        config.linear_value_heads,
        config.linear_key_size,
        config.linear_value_size,
    )


def _linear(config: LayerFields, count: int, indices: tuple[int, ...]) -> Attending:
    """A gated delta net: vLLM keeps its matrix, and the last inputs of its convolution, per request."""
    key_heads, value_heads, key_size, value_size = (size or 1 for size in _linear_sizes(config))
    keys, values, kernel = key_heads * key_size, value_heads * value_size, config.linear_kernel or 4
    projections = {
        "in_proj_qkv": config.hidden * (2 * keys + values),
        "in_proj_z": config.hidden * values,
        "in_proj_ba": config.hidden * 2 * value_heads,
        "conv1d": (2 * keys + values) * kernel,
        "out_proj": values * config.hidden,
    }
    number = _STATE_BYTES.get(config.state_type or "bfloat16", 4)
    state = value_heads * key_size * value_size * number + (kernel - 1) * (2 * keys + values) * CACHE_BYTES
    kind = AttentionLayers(count, sum(projections.values()), 0.0, key_heads, None, float(state))
    return Attending(kind, indices, "linear_attn", projections)


def _latent_sizes(config: LayerFields) -> tuple[int | None, ...]:
    return (config.rope_size, config.nope_size, config.value_size)


def _latent(config: LayerFields, count: int, indices: tuple[int, ...]) -> Attending:
    """Every GPU of a tensor-parallel group keeps the whole latent, which all heads read."""
    rope, nope, value = (size or 1 for size in _latent_sizes(config))
    hidden, heads, latent = config.hidden, config.heads, config.latent or 1
    queries = config.latent_queries
    projections = {
        "kv_a_proj_with_mqa": hidden * (latent + rope),
        "kv_b_proj": latent * heads * (nope + value),
        "o_proj": heads * value * hidden,
    }
    if queries is None:
        projections["q_proj"] = hidden * heads * (nope + rope)
    else:
        projections["q_a_proj"] = hidden * queries
        projections["q_b_proj"] = queries * heads * (nope + rope)
    cached = float((latent + rope) * CACHE_BYTES)
    if config.index_heads is not None and config.index_size is not None:
        projections["indexer.wq_b"] = (queries or hidden) * config.index_heads * config.index_size
        projections["indexer.wk"] = hidden * config.index_size
        projections["indexer.weights_proj"] = hidden * config.index_heads
        cached += config.index_size * (1 + _INDEX_SCALES)
    kind = AttentionLayers(count, sum(projections.values()), cached, 1)
    return Attending(kind, indices, "self_attn", projections)


def head_size_of(config: LayerFields) -> int:
    """Head size of queries, keys and values with grouped heads."""
    return config.head_size or config.hidden // config.heads


def _sparse(config: LayerFields) -> tuple[tuple[int, ...], list[str]]:
    """The layers with experts, and what is not known of that."""
    layers = range(config.layers)
    if (config.experts or 1) <= 1 or config.experts_beside_mlp is False:
        return (), []
    frequency = config.expert_layer_frequency
    if config.mlp_layer_types is not None:
        kinds = config.mlp_layer_types
        if len(kinds) != config.layers or not set(kinds) <= {"dense", "sparse"}:
            return tuple(layers), ["mlp_layer_types"]
        return tuple(i for i in layers if kinds[i] == "sparse"), []
    if isinstance(frequency, list):
        if len(frequency) != config.layers or not set(frequency) <= {0, 1}:
            return tuple(layers), ["moe_layer_freq"]
        return tuple(i for i in layers if frequency[i]), []
    if frequency is not None and frequency < 1:
        return tuple(layers), ["moe_layer_freq"]
    if config.moe_layers:
        return tuple(i for i in layers if i in config.moe_layers), []
    every = config.sparse_step or config.interleave_step or 1
    dense, first = set(config.mlp_only_layers or ()), config.first_dense or 0
    chosen = (i for i in layers if (i + 1) % every == 0 and i not in dense and i >= first)
    return tuple(i for i in chosen if frequency is None or i % frequency == 0), []
