"""Will it fit? What one launch holds on each GPU.

    need per GPU = weights / n + drafter + cache + graphs + runtime     fits if need <= share x memory

n GPUs by tensor parallelism. A draft model is spread like its target; other drafters are on every GPU whole.
The cache is spread too, as far as there are heads to spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import DraftingModel

GRAPH_BYTES = 0.6e9
"""Per GPU, of the CUDA graphs of one K up to the largest batch. Assumed."""
GRAPH_BYTES_PER_FURTHER_K = 0.1e9
"""Per GPU; the launch table keeps the graphs of every further candidate few. Assumed."""
RUNTIME_BYTES = 1.0e9
"""Per GPU: CUDA context, libraries, activations of a step. Assumed."""


class Verdict(StrEnum):
    """Whether a launch fits."""

    FITS = "fits"
    CROWDED = "crowded"
    """It starts, but not all streams have room in the cache: some wait or start over."""
    TOO_LARGE = "too large"
    """The engine ends while it starts: no room for one request."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is held in the cache."""

    streams: int
    context: int  # tokens per request, prompt and answer


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one GPU, unless it says otherwise."""

    gpus: int
    weights: float
    drafter: float
    cache_per_token: float
    graphs: float
    runtime: float
    available: float  # what the engine may take
    load: Load

    @property
    def cache(self) -> float:
        """Of the whole load."""
        return self.cache_per_token * self.load.streams * self.load.context

    @property
    def before_cache(self) -> float:
        """Taken before the first token is cached."""
        return self.weights + self.drafter + self.graphs + self.runtime

    @property
    def needed(self) -> float:
        """With the whole load."""
        return self.before_cache + self.cache

    @property
    def total(self) -> float:
        """On all GPUs."""
        return self.gpus * self.needed

    @property
    def cache_tokens(self) -> int:
        """Tokens for which there is room."""
        return max(0, int((self.available - self.before_cache) // self.cache_per_token))

    @property
    def streams_with_room(self) -> int:
        """Requests of the load's length for which there is room."""
        return self.cache_tokens // self.load.context

    @property
    def verdict(self) -> Verdict:
        """Whether it fits."""
        if self.streams_with_room < 1:
            return Verdict.TOO_LARGE
        return Verdict.FITS if self.streams_with_room >= self.load.streams else Verdict.CROWDED


def memory(
    target: Architecture,
    drafter: DraftingModel,
    gpu_bytes: float,
    *,
    gpus: int,
    share: float,
    candidates: int,
    load: Load,
) -> Memory:
    """Of one replica. gpu_bytes: memory of each GPU; share: of it that the engine may take; candidates: how
    many K.
    """
    spread = min(gpus, target.kv_heads)
    draft_cache = drafter.cache_bytes_per_token / (spread if drafter.spreads else 1)
    return Memory(
        gpus=gpus,
        weights=target.weight_bytes / gpus,
        drafter=drafter.weight_bytes / (gpus if drafter.spreads else 1),
        cache_per_token=target.cache_bytes_per_token / spread + draft_cache,
        graphs=GRAPH_BYTES + GRAPH_BYTES_PER_FURTHER_K * (candidates - 1),
        runtime=RUNTIME_BYTES,
        available=share * gpu_bytes,
        load=load,
    )
