"""Drafters in numbers: what one holds in memory, and what one drafted position costs."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.api.methods import Method
from outrider.sizing.architecture import Architecture
from outrider.sizing.sources import Evidence, Source

_EAGLE3_VOCABULARY = 32_000
"""Tokens that an EAGLE-3 head drafts from; the published ones keep the most frequent ones of the target's."""
_EAGLE3_TARGET_LAYERS = 3
"""Layers of the target whose hidden states an EAGLE-3 head reads."""


@dataclass(frozen=True, slots=True)
class DraftingModel:
    """What drafts, in bytes and weights."""

    method: Method
    name: str
    weight_bytes: float
    bytes_read: float  # per drafted position
    active_parameters: float  # each drafted token is multiplied with these
    cache_bytes_per_token: float
    spreads: bool  # over the GPUs as the target does, which vLLM does with every drafter that has weights
    source: Source

    @property
    def passes(self) -> bool:
        """Whether each drafted position is a pass over weights."""
        return self.bytes_read > 0


def draft_model(model: Architecture, where: str) -> DraftingModel:
    """A small model of its own. where: the source of its dimensions."""
    return DraftingModel(
        Method.DRAFT_MODEL,
        model.name,
        model.weight_bytes,
        model.bytes_read(1),
        model.active_parameters,
        model.cache_bytes_per_token,
        spreads=True,
        source=Source(f"drafter {model.name}", Evidence.READ, where),
    )


def eagle_head(method: Method, target: Architecture) -> DraftingModel:
    """One layer over the target's hidden states, and an output layer of its own; 16-bit weights.

    An EAGLE-3 head joins three hidden states into one, and its attention reads that and the embedding
    side by side. An EAGLE head joins state and embedding, and uses the target's output layer.
    """
    hidden, mlp = target.hidden, 3 * target.hidden * target.intermediate * target.experts_per_token
    if method is Method.EAGLE3:
        queries = 2 * hidden * target.head_size * (target.heads + 2 * target.kv_heads)
        output = hidden * target.head_size * target.heads
        joined = _EAGLE3_TARGET_LAYERS * hidden * hidden
        own = queries + output + mlp + joined + hidden * _EAGLE3_VOCABULARY
        read = own
    else:
        own = target.attention_parameters + mlp + 2 * hidden * hidden
        read = own + hidden * target.vocabulary
    return DraftingModel(
        method,
        f"{method} head",
        2.0 * own,
        2.0 * read,
        read,
        target.cache_bytes_per_token / target.layers,
        spreads=True,
        source=Source(f"{method} head", Evidence.FORMULA, "one layer of the target's size, 16-bit weights"),
    )


def prediction_layer(target: Architecture) -> DraftingModel:
    """The target's own next-token layer (MTP), whose weights lie beside the target's."""
    layer = target.attention_parameters + target.experts * target.expert_parameters
    own = layer + 2 * target.hidden**2
    active = (
        target.attention_parameters
        + target.experts_per_token * target.expert_parameters
        + 2 * target.hidden**2
        + target.hidden * target.vocabulary
    )
    return DraftingModel(
        Method.MTP,
        "mtp layer",
        own * target.precision.bytes,
        active * target.precision.bytes,
        active,
        target.cache_bytes_per_token / target.layers,
        spreads=True,
        source=Source("mtp layer", Evidence.FORMULA, "one layer of the target's size"),
    )


def without_weights(method: Method) -> DraftingModel:
    """N-gram: drafts are looked up in the request's own text. Also what stands for no drafter at all."""
    source = Source("drafter", Evidence.ASSUMED, "a look-up costs nothing beside a step")
    return DraftingModel(method, str(method), 0.0, 0.0, 0.0, 0.0, spreads=False, source=source)
