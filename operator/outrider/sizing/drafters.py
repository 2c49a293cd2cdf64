"""Drafters in numbers: what one holds in memory, and what one drafted position costs."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.sources import Evidence, Source
from outrider_protocol.methods import TRAITS, Kind, Method

_EAGLE3_VOCABULARY = 32_000
"""Tokens that an EAGLE-3 head drafts from; the published ones keep the most frequent ones of the target's."""
_EAGLE3_TARGET_LAYERS = 3
"""Layers of the target whose hidden states an EAGLE-3 head reads."""


@dataclass(frozen=True, slots=True)
class DraftingModel:
    """What drafts, in bytes and weights. vLLM shards all of it as it does the target."""

    method: Method
    name: str
    weight_bytes: float
    bytes_read: float  # per drafted position
    active_parameters: float  # each drafted token is multiplied with these
    cache_bytes_per_token: float
    source: Source
    cache_heads: int = 1  # over which GPUs can spread the cache
    expert_weight_bytes: float = 0.0  # of `weight_bytes`
    unknown: str | None = None  # what is not known of its size; then nothing is counted

    @property
    def passes(self) -> bool:
        """Whether each drafted position is a pass over weights."""
        return self.bytes_read > 0

    @property
    def drafts_block(self) -> bool:
        """Whether one pass drafts all positions."""
        return TRAITS[self.method].kind is Kind.BLOCK

    @property
    def speed_unknown(self) -> bool:
        """No formula has the cost of its drafts."""
        return not TRAITS[self.method].one_pass


def draft_model(model: Architecture, where: str) -> DraftingModel:
    """A small model of its own. where: the source of its dimensions."""
    return _separate(Method.DRAFT_MODEL, model, where, model.weight_bytes, model.bytes_read(1))


def block_drafter(method: Method, model: Architecture, where: str) -> DraftingModel:
    """A small network that drafts several tokens at once and shares embeddings and output with its target."""
    layers = max(0.0, model.weight_bytes - Precision.BF16.bytes * model.table_parameters)
    output = Precision.BF16.bytes * model.hidden * model.vocabulary
    return _separate(method, model, where, layers, layers + output)


def _separate(
    method: Method, model: Architecture, where: str, weight_bytes: float, bytes_read: float
) -> DraftingModel:
    if model.unknown:
        return unknown_size(method, model.name, "; ".join(model.unknown))
    return DraftingModel(
        method,
        model.name,
        weight_bytes,
        bytes_read,
        model.active_parameters,
        model.cache_bytes_per_token,
        source=Source(f"drafter {model.name}", Evidence.READ, where),
        cache_heads=model.full_attention.heads,
    )


def eagle_head(method: Method, target: Architecture) -> DraftingModel:
    """One layer over the target's hidden states, and an output layer of its own; 16-bit weights.

    An EAGLE-3 head joins three hidden states into one, and its attention reads that and the embedding
    side by side. An EAGLE head joins state and embedding, and uses the target's output layer.
    """
    hidden, mlp = target.hidden, 3 * target.hidden * target.intermediate * target.experts_per_token
    grouped = hidden * target.head_size * (target.heads + 2 * target.kv_heads)
    output = hidden * target.head_size * target.heads
    if method is Method.EAGLE3:
        joined = _EAGLE3_TARGET_LAYERS * hidden * hidden
        own = 2 * grouped + output + mlp + joined + hidden * _EAGLE3_VOCABULARY
        read = own
    else:
        own = grouped + output + mlp + 2 * hidden * hidden
        read = own + hidden * target.vocabulary
    return DraftingModel(
        method,
        f"{method} head",
        2.0 * own,
        2.0 * read,
        read,
        2.0 * 2 * target.kv_heads * target.head_size,
        source=Source(f"{method} head", Evidence.FORMULA, "one layer of the target's size, 16-bit weights"),
        cache_heads=target.kv_heads,
    )


def prediction_layer(target: Architecture) -> DraftingModel:
    """The target's own next-token layer (MTP), whose weights lie beside the target's.

    It is one more layer as the target's are, with the bytes that its parts have there, and uses the target's
    output layer.
    """
    kind, part = target.full_attention, target.bytes_by_part
    joined = 2 * target.hidden**2
    shared = 3 * target.hidden * target.shared_intermediate
    one_expert = target.expert_parameters
    if target.experts == 1:
        shared, one_expert = target.expert_parameters, 0
    always = kind.parameters * part.attention + shared * part.mlp + joined * Precision.BF16.bytes
    output = target.hidden * target.vocabulary
    active = kind.parameters + shared + joined + target.experts_per_token * one_expert + output
    experts = target.experts * one_expert * part.experts
    return DraftingModel(
        Method.MTP,
        "mtp layer",
        always + experts,
        always + target.experts_per_token * one_expert * part.experts + output * part.output,
        active,
        kind.cache_bytes,
        source=Source("mtp layer", Evidence.FORMULA, "one layer of the target's size"),
        cache_heads=kind.heads,
        expert_weight_bytes=experts,
        unknown="; ".join(target.unknown) or None,
    )


def without_weights(method: Method) -> DraftingModel:
    """N-gram: drafts are looked up in the request's own text. Also what stands for no drafter at all."""
    source = Source("drafter", Evidence.ASSUMED, "a look-up costs nothing beside a step")
    return DraftingModel(method, str(method), 0.0, 0.0, 0.0, 0.0, source=source)


def unknown_size(method: Method, name: str, why: str = "its size") -> DraftingModel:
    """Weights that nothing is counted of. why: what of them is not known."""
    source = Source("drafter", Evidence.ASSUMED, "its size is not known and not counted")
    return DraftingModel(method, name, 0.0, 0.0, 0.0, 0.0, source=source, unknown=why)
