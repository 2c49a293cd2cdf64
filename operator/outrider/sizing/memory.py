"""Will it fit? What one launch holds on each GPU.

    need per GPU = weights + drafter + cache + graphs + runtime     fits if need <= share x memory

Weights are divided as `Spread` says. A drafter is sharded by tensor parallelism as its target is, and lies on
the last stage of a pipeline. The cache is divided over heads of keys and values, as far as there are some.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import DraftingModel
from outrider.sizing.spread import Spread

GRAPH_BYTES = 0.6e9
"""Per GPU, of the CUDA graphs of one K up to the largest batch. Assumed."""
GRAPH_BYTES_PER_FURTHER_K = 0.1e9
"""Per GPU; the launch schedule keeps the graphs of every further candidate few. Assumed."""
RUNTIME_BYTES = 1.0e9
"""Per GPU: CUDA context, libraries, activations of a step. Assumed."""


class Verdict(StrEnum):
    """Whether a launch fits."""

    FITS = "fits"
    CROWDED = "crowded"
    """It starts, but not all streams have room in the cache: some wait or start over."""
    TOO_LARGE = "too large"
    """The engine ends while it starts: no room for one request."""
    NOT_KNOWN = "not known"
    """A part of weights or cache could not be read."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is held in the cache."""

    streams: int  # at once, on the whole replica
    context: int  # tokens per request, prompt and answer


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one GPU, unless it says otherwise."""

    spread: Spread
    weights: float
    drafter: float
    cache_per_request: float  # of the load's length
    graphs: float
    runtime: float
    available: float  # what the engine may take
    load: Load
    unknown: tuple[str, ...] = ()  # what could not be read of the model: nothing follows from the sum
    drafter_unknown: str | None = None  # what is not known of it; the sum is without it

    @property
    def gpus(self) -> int:
        """GPUs of the replica."""
        return self.spread.gpus

    @property
    def streams(self) -> int:
        """Requests of the load whose cache lies on one GPU: ranks of data parallelism share them out."""
        return -(-self.load.streams // self.spread.data)

    @property
    def cache(self) -> float:
        """Bytes of the whole load."""
        return self.cache_per_request * self.streams

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
    def streams_with_room(self) -> int:
        """Requests of the load's length for which the replica has room."""
        each = max(0.0, self.available - self.before_cache) / self.cache_per_request
        return int(each) * self.spread.data

    @property
    def verdict(self) -> Verdict:
        """The verdict: whether the launch fits."""
        if self.unknown:
            return Verdict.NOT_KNOWN
        if self.streams_with_room < 1:
            return Verdict.TOO_LARGE
        if self.drafter_unknown:
            return Verdict.NOT_KNOWN
        return Verdict.FITS if self.streams_with_room >= self.load.streams else Verdict.CROWDED


def memory(
    target: Architecture,
    drafter: DraftingModel,
    gpu_bytes: float,
    *,
    spread: Spread,
    share: float,
    candidates: tuple[int, ...],
    load: Load,
) -> Memory:
    """Memory of one replica. gpu_bytes: of each GPU; share: ratio that the engine may take; candidates: K."""
    # With linear attention vLLM keeps the state after each token that may be rejected.
    states = 1 + max(candidates)
    cache = sum(
        kind.bytes_of_request(load.context, states) / min(spread.tensor, kind.heads)
        for kind in target.attention_kinds
    )
    draft_cache = drafter.cache_bytes_per_token * load.context / min(spread.tensor, drafter.cache_heads)
    return Memory(
        spread=spread,
        weights=spread.on_each(target.expert_weight_bytes, target.other_weight_bytes),
        drafter=drafter.expert_weight_bytes / (spread.tensor * spread.data)
        + (drafter.weight_bytes - drafter.expert_weight_bytes) / spread.tensor,
        cache_per_request=max(1.0, cache / spread.pipeline + draft_cache),
        graphs=GRAPH_BYTES + GRAPH_BYTES_PER_FURTHER_K * (len(candidates) - 1),
        runtime=RUNTIME_BYTES,
        available=share * gpu_bytes,
        load=load,
        unknown=target.unknown,
        drafter_unknown=drafter.unknown,
    )
