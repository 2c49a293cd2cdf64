"""A decoder-only transformer in numbers, and what follows: parameters, bytes of weights, bytes of cache."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_CACHE_BYTES = 2
"""Bytes of a number in the KV cache: vLLM's default is the model's own 16 bits."""
_TABLE_BYTES = 2
"""Embeddings and output layer stay in 16 bits in quantised checkpoints."""


class Precision(StrEnum):
    """Of the weights in the layers."""

    BF16 = "bf16"
    FP8 = "fp8"
    INT4 = "int4"

    @property
    def bytes(self) -> float:
        """Per weight; 4-bit formats have a 16-bit scale for every 32 to 128 weights besides."""
        return {Precision.BF16: 2.0, Precision.FP8: 1.0, Precision.INT4: 0.53}[self]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Dimensions by the names of a config.json, attention with grouped heads and a gated MLP."""

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
    precision: Precision = Precision.BF16

    @property
    def attention_parameters(self) -> int:
        """Of one layer: queries, keys, values, output."""
        return self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Of one expert of one layer; of the MLP where there are none."""
        return 3 * self.hidden * self.intermediate

    @property
    def table_parameters(self) -> int:
        """Embeddings and output layer."""
        return self.hidden * self.vocabulary * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All of them; norms and biases, a few in ten thousand, are left out."""
        return self.table_parameters + self.layers * (
            self.attention_parameters + self.experts * self.expert_parameters + self._router
        )

    @property
    def active_parameters(self) -> int:
        """Those that one token is multiplied with: no embeddings, and its own experts only."""
        return self.hidden * self.vocabulary + self.layers * (
            self.attention_parameters + self.experts_per_token * self.expert_parameters + self._router
        )

    @property
    def weight_bytes(self) -> float:
        """In the GPU's memory."""
        return self._bytes(self.table_parameters, self.experts)

    def bytes_read(self, tokens: float) -> float:
        """Weights that a step over so many tokens reads: of the experts those that a token chose.

        Tokens choose as if by chance, so n of them leave the share (1 - chosen / experts)^n unread.
        """
        unread = (1.0 - self.experts_per_token / self.experts) ** tokens if self.experts > 1 else 0.0
        return self._bytes(self.hidden * self.vocabulary, self.experts * (1.0 - unread))

    @property
    def cache_bytes_per_token(self) -> float:
        """Keys and values of one token in all layers."""
        return float(2 * self.layers * self.kv_heads * self.head_size * _CACHE_BYTES)

    @property
    def _router(self) -> int:
        return self.hidden * self.experts if self.experts > 1 else 0

    def _bytes(self, table: int, experts: float) -> float:
        layer = self.attention_parameters + experts * self.expert_parameters
        return table * _TABLE_BYTES + self.layers * (layer * self.precision.bytes + self._router * 2)
