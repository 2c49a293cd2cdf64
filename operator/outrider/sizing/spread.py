"""How many GPUs a replica has, and what of a model lies on each of them. Pure.

The one count of `outrider plan` and of the operator's `WillNotFit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.api.parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class Spread:
    """Sizes of tensor, pipeline and data parallelism of one replica.

    Tensor and pipeline divide everything. Data parallelism divides requests, and of the weights only experts.
    vLLM shards them over the GPUs of all ranks: whole experts with `expert`, parts of each without it
    (``FusedMoEParallelConfig.make``). Ranks of a dense model each hold the whole.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1

    @classmethod
    def of(cls, wanted: Parallelism) -> Spread:
        """That a manifest asks for."""
        return cls(wanted.tensor, wanted.pipeline, wanted.data)

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.pipeline * self.data

    @property
    def rank(self) -> int:
        """GPUs over which all weights but experts are divided."""
        return self.tensor * self.pipeline

    def divides(self, heads: int) -> bool:
        """Return True if these attention heads come out even over GPUs; vLLM refuses other launches.

        See ``ModelConfig.verify_with_parallel_config``.
        """
        return heads % self.tensor == 0

    def with_gpus(self, gpus: int) -> Spread | None:
        """As many by tensor parallelism as that takes; None: it does not come out even."""
        others = self.pipeline * self.data
        return replace(self, tensor=gpus // others) if gpus % others == 0 else None

    def on_each(self, experts: float, others: float) -> float:
        """Bytes of weights on one GPU."""
        return experts / self.gpus + others / self.rank
