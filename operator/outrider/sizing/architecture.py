"""A decoder-only transformer in numbers, and what follows: parameters, bytes of weights, bytes of cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

CACHE_BYTES = 2
"""Bytes of a number in the KV cache: vLLM's default is the model's own 16 bits."""
_SIXTEEN_BITS = 2.0
"""Per weight. Embeddings, routers and vision towers stay in 16 bits in quantised checkpoints."""

_OVERLAP = 0.38
"""Ratio of a token's experts that the token before it in the same text chose, too."""
_FRESH_FALLS = 0.79
"""Each further token of a text chooses so much fewer experts that none before it chose."""
# Both are Cohere's measurements, "Why MoE models get more from speculative decoding" (2026): 38 % at the next
# token, and four tokens of one text choose 2.5 times the experts of one where chance would give 3.6 times.


class Precision(StrEnum):
    """Precision of the weights in the layers."""

    BF16 = "bf16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    INT8 = "int8"
    INT4 = "int4"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"

    @property
    def bytes(self) -> float:
        """Bytes per weight, with the scales.

        A scale has 16 bits for every 32 to 128 weights in int4. It has 8 bits for every 32 in mxfp4 and
        mxfp8, and for every 16 in nvfp4. Scales of fp8 and int8 are few.
        """
        return {
            Precision.BF16: 2.0,
            Precision.FP8: 1.0,
            Precision.MXFP8: 1.0 + 1 / 32,
            Precision.INT8: 1.0,
            Precision.INT4: 0.53,
            Precision.MXFP4: 0.5 + 1 / 32,
            Precision.NVFP4: 0.5 + 1 / 16,
        }[self]


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes per weight by the part of a model, scales included, mean over its layers."""

    attention: float
    mlp: float  # of dense layers, and of experts that every token passes
    experts: float
    output: float = _SIXTEEN_BITS


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Layers that attend in the same way."""

    layers: int
    parameters: int  # of one layer
    cache_bytes: float  # of one token in one layer
    heads: int  # over which GPUs can spread cache and state; 1: each GPU has the whole
    window: int | None = None  # tokens that stay in the cache; None: all
    state_bytes: float = 0.0  # of one request in one layer, however long it is

    def bytes_of_request(self, context: float, states: int = 1) -> float:
        """In the cache of all these layers. states: copies of the state, one for each token of a step."""
        tokens = context if self.window is None else min(context, self.window)
        return self.layers * (tokens * self.cache_bytes + states * self.state_bytes)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Dimensions by the names of a config.json, with a gated MLP.

    Without `attention` all layers have full attention with grouped heads. `unknown` says what could not be
    read: then weights or cache are not those of the model, and nothing may be concluded from them.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int  # of one expert, where there are experts
    vocabulary: int
    tied: bool = False  # output layer and embeddings are one table
    experts: int = 1
    experts_per_token: int = 1
    precision: Precision = Precision.BF16  # of most weights
    attention: tuple[AttentionLayers, ...] = ()
    dense_layers: int = 0  # of `layers`, those with one MLP where others have experts
    dense_intermediate: int = 0  # of that MLP
    shared_intermediate: int = 0  # of what every token passes beside its experts
    other_parameters: int = 0  # a vision tower, in 16 bits
    weight_bytes_by_part: WeightBytes | None = None  # None: `precision` in all layers
    unknown: tuple[str, ...] = ()

    @property
    def attention_kinds(self) -> tuple[AttentionLayers, ...]:
        """Every layer in one of them."""
        grouped = self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        cached = float(2 * self.kv_heads * self.head_size * CACHE_BYTES)
        return self.attention or (AttentionLayers(self.layers, grouped, cached, self.kv_heads),)

    @property
    def full_attention(self) -> AttentionLayers:
        """The kind that keeps most of a request: what a drafter of the model's own kind has."""
        return max(self.attention_kinds, key=lambda kind: (kind.window is None, kind.cache_bytes))

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers if self.experts > 1 else 0

    @property
    def expert_parameters(self) -> int:
        """Weights of one expert of one layer; of the MLP where there are none."""
        return 3 * self.hidden * self.intermediate

    @property
    def table_parameters(self) -> int:
        """Embeddings and output layer."""
        return self.hidden * self.vocabulary * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All of them; norms and biases, a few in ten thousand, are left out."""
        return (
            self.table_parameters
            + self.other_parameters
            + self._attention
            + self._mlp
            + self._routers
            + self.experts * self._experts_of_one
        )

    @property
    def active_parameters(self) -> int:
        """Those that one token is multiplied with: no embeddings, and its own experts only."""
        return (
            self.hidden * self.vocabulary
            + self._attention
            + self._mlp
            + self._routers
            + self.experts_per_token * self._experts_of_one
        )

    @property
    def bytes_by_part(self) -> WeightBytes:
        """Per weight."""
        wide = self.precision.bytes
        return self.weight_bytes_by_part or WeightBytes(wide, wide, wide)

    @property
    def weight_bytes(self) -> float:
        """In the memory of all GPUs together."""
        return self.expert_weight_bytes + self.other_weight_bytes

    @property
    def expert_weight_bytes(self) -> float:
        """Bytes of the experts that tokens choose from."""
        return self.experts * self._experts_of_one * self.bytes_by_part.experts if self.experts > 1 else 0.0

    @property
    def other_weight_bytes(self) -> float:
        """Bytes of everything else."""
        embeddings = 0 if self.tied else self.hidden * self.vocabulary
        return self.bytes_always_read + _SIXTEEN_BITS * (embeddings + self.other_parameters)

    def bytes_read(self, requests: float, tokens: float = 1.0) -> float:
        """Weights that a step reads: of the experts those that a token chose. tokens: of each request.

        Requests choose as if by chance, so n of them leave the share (1 - chosen / experts)^n unread. Tokens
        of one request follow each other, and choose less than as many requests would (`_OVERLAP`).
        """
        return self.bytes_always_read + self.expert_bytes_read(requests, tokens)

    def expert_bytes_read(self, requests: float, tokens: float = 1.0) -> float:
        """Of `bytes_read`, that of experts."""
        if self.experts == 1:
            return 0.0
        further = (1.0 - math.pow(_FRESH_FALLS, tokens - 1.0)) / (1.0 - _FRESH_FALLS)
        choices = requests * (1.0 + (1.0 - _OVERLAP) * further)
        unread = math.pow(1.0 - self.experts_per_token / self.experts, choices)
        return (1.0 - unread) * self.expert_weight_bytes

    def cache_bytes(self, context: float, states: int = 1) -> float:
        """Bytes of one request of so many tokens, on all GPUs together. states: see `AttentionLayers`."""
        return sum(kind.bytes_of_request(context, states) for kind in self.attention_kinds)

    @property
    def cache_bytes_per_token(self) -> float:
        """By which the cache grows with each token of a long request."""
        return float(sum(k.layers * k.cache_bytes for k in self.attention_kinds if k.window is None))

    @property
    def _attention(self) -> int:
        return sum(kind.layers * kind.parameters for kind in self.attention_kinds)

    @property
    def _mlp(self) -> int:
        """What every token passes of the MLPs."""
        if self.experts == 1:
            return self.layers * self.expert_parameters
        dense = self.dense_layers * self.dense_intermediate
        return 3 * self.hidden * (dense + self.expert_layers * self.shared_intermediate)

    @property
    def _experts_of_one(self) -> int:
        """One expert of each layer that has some."""
        return self.expert_layers * self.expert_parameters

    @property
    def _routers(self) -> int:
        return self.expert_layers * self.hidden * self.experts

    @property
    def bytes_always_read(self) -> float:
        """Weights that each step reads, whatever its tokens are: all but embeddings and experts."""
        part = self.bytes_by_part
        return (
            self.hidden * self.vocabulary * part.output
            + self._attention * part.attention
            + self._mlp * part.mlp
            + self._routers * _SIXTEEN_BITS
        )
