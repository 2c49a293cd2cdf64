"""What speed to expect, with drafts and without.

A step reads the weights once and the cache once, and multiplies every token with the active weights:

    T(B, K) = weights read / (bandwidth x 0.76) + 1.2 ms + cache read / bandwidth
            + 0.1 ms x layers with experts
            + B (1 + K) x 2 active / (arithmetic x 0.72)
            + K x (the same of the drafter, with 1.8 ms)

A drafter of blocks has the last term once for every K > 0, with all tokens of the block.

The form is that of `StepTime`. Four of the numbers are those with which it becomes the published fit of
Llama-3.1-8B with EAGLE-3 on an H100 (arXiv 2601.11580). That they hold for other models and GPUs is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from outrider.performance.accepted_tokens import gain_of
from outrider.performance.step_time import StepTime
from outrider.performance.throughput_table import ThroughputTable
from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.drafters import DraftingModel
from outrider.sizing.gpus import Gpu
from outrider.sizing.spread import Spread
from outrider.tuning.policy import Estimation

BANDWIDTH_REACHED = 0.76
"""Ratio of the data sheet's bandwidth at which weights are read."""
ARITHMETIC_REACHED = 0.72
"""Ratio of the data sheet's operations per second."""
STEP_OVERHEAD_SECONDS = 0.0012
"""Scheduling and sampling, per step."""
DRAFT_OVERHEAD_SECONDS = 0.0018
"""Per drafted position."""
EXPERT_LAYER_SECONDS = 0.0001
"""Per layer with experts and step, whatever its tokens are: to choose, to sort, and many small kernels.

Published steps of one stream are longer than their reads. Per layer it is 0.04 ms (gpt-oss-120b, H100), 0.1
(GLM-4.7-Flash, H100), 0.2 (Qwen3-Coder-30B, GB10) and 0.65 (Qwen3.6-35B-A3B, Strix Halo).
"""
_EIGHT_BIT_FLOATS = (Precision.FP8, Precision.MXFP8)
"""Precisions in which the layers are multiplied in 8 bits, where the GPU does so."""


class Speeds(Protocol):
    """Tokens per second of one replica, by the number of requests in a step."""

    def goodput(self, batch: int, k: int) -> float:
        """With K drafted tokens in an engine that has a drafter."""
        ...

    def without(self, batch: int) -> float:
        """Seconds of a step of a launch without drafter."""
        ...


def expected_tokens(acceptance: Sequence[float], k: int) -> float:
    """Tokens per request and step: 1 + a_1 + a_1 a_2 + ... ; (1 - a^(K+1)) / (1 - a) for one rate a.

    acceptance: of each position, given the ones before; the last one stands for those beyond.
    """
    return 1.0 + gain_of(tuple(acceptance), k).mean


def rule_of_thumb(accepted: float, draft_cost: float) -> float:
    """Speedup of one stream by the rule of thumb: (1 + m) / ((1 + m) c + 1).

    accepted: mean accepted tokens m per step; draft_cost: c, of drafting a token over a step of the target.
    """
    return (1.0 + accepted) / ((1.0 + accepted) * draft_cost + 1.0)


def even_acceptance(tokens: float, k: int) -> float | None:
    """The acceptance, alike for all positions, at which K gives so many tokens; None: none does."""
    if k == 0 or tokens > k + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens((middle,), k) < tokens else (low, middle)
    return high


@dataclass(frozen=True)
class FormulaSpeeds:
    """`Speeds` of a model and a drafter that were not run yet."""

    target: Architecture
    drafter: DraftingModel
    gpu: Gpu
    spread: Spread
    context: float  # tokens in the cache per request, mean
    acceptance: tuple[float, ...]
    block: int = 0  # tokens that one pass drafts, whatever K is; 0: each position is a pass

    def goodput(self, batch: int, k: int) -> float:
        """See `Speeds`."""
        return batch * expected_tokens(self.acceptance, k) / self.seconds(batch, k)

    def without(self, batch: int) -> float:
        """See `Speeds`."""
        return batch / self.seconds_without(batch)

    def seconds(self, batch: int, k: int) -> float:
        """One step of an engine with the drafter; at K=0 with the overhead of the idle drafter."""
        share = self._share(batch)
        step = self._step(share, 1 + k, idle_tax=Estimation().k0_tax)
        if not self.block:
            return step.seconds(share, k, share * self.context)
        verified = replace(step, draft_fixed=0.0, draft_per_kv_token=0.0, draft_per_token=0.0)
        drafted = self._block_seconds(step, share) if k else 0.0
        return verified.seconds(share, k, share * self.context) + drafted

    def seconds_without(self, batch: int) -> float:
        """One step of a launch without drafter."""
        share = self._share(batch)
        return self._step(share, 1, idle_tax=0.0).seconds(share, 0, share * self.context)

    def draft_cost(self) -> float:
        """Cost of drafting one token of one stream, over a step of the target."""
        one = self.seconds_without(1)
        if self.block:
            return self._block_seconds(self._step(1.0, 2, idle_tax=0.0), 1.0) / (self.block * one)
        return (self.seconds(1, 2) - self.seconds(1, 1)) / one

    def _block_seconds(self, step: StepTime, requests: float) -> float:
        """One pass over the blocks of all requests: the last token and as many as are drafted."""
        cached = step.draft_per_kv_token * requests * self.context
        return step.draft_fixed + cached + step.draft_per_token * requests * (1 + self.block)

    def _share(self, batch: float) -> float:
        """Requests of a batch that are in one step: ranks and stages of a pipeline take turns with them."""
        return max(1.0, batch / (self.spread.data * self.spread.pipeline))

    def _step(self, requests: float, tokens: int, *, idle_tax: float) -> StepTime:
        """With the weights that these requests with so many tokens each read: experts make it depend on them.

        Stages of a pipeline follow each other, so that a step takes as long as if it had one.
        """
        target, drafter, spread = self.target, self.drafter, self.spread
        bandwidth, flops = spread.tensor * self.gpu.bytes_per_second, spread.tensor * self._flops
        read, reckon = bandwidth * BANDWIDTH_REACHED, flops * ARITHMETIC_REACHED
        # Ranks of data parallelism step together, and each has a part of the experts.
        experts = target.expert_bytes_read(requests * spread.data, tokens) / spread.data
        cached = self._cache_read(tokens) / (self.context * self.gpu.bytes_per_second)
        draft_cached = drafter.cache_bytes_per_token / min(spread.tensor, drafter.cache_heads)
        return StepTime(
            fixed=(target.bytes_always_read + experts) / read
            + STEP_OVERHEAD_SECONDS
            + EXPERT_LAYER_SECONDS * target.expert_layers,
            per_kv_token=cached,
            per_token=2.0 * target.active_parameters / reckon,
            draft_fixed=drafter.bytes_read / read + (DRAFT_OVERHEAD_SECONDS if drafter.passes else 0.0),
            draft_per_kv_token=draft_cached / self.gpu.bytes_per_second,
            draft_per_token=2.0
            * drafter.active_parameters
            / (spread.tensor * self.gpu.flops * ARITHMETIC_REACHED),
            idle_tax=idle_tax,
        )

    def _cache_read(self, states: int) -> float:
        """Bytes on one GPU, of one request."""
        kinds = self.target.attention_kinds
        return sum(k.bytes_of_request(self.context, states) / min(self.spread.tensor, k.heads) for k in kinds)

    @property
    def _flops(self) -> float:
        eight = self.gpu.flops_8_bit if self.target.precision in _EIGHT_BIT_FLOATS else None
        return eight or self.gpu.flops


@dataclass(frozen=True)
class MeasuredSpeeds:
    """`Speeds` out of a table, of the K that it has."""

    table: ThroughputTable

    def goodput(self, batch: int, k: int) -> float:
        """See `Speeds`."""
        return self.table.goodput(batch, k)

    def without(self, batch: int) -> float:
        """See `Speeds`."""
        return self.table.no_speculation(batch)


def best_k(speeds: Speeds, batch: int, candidates: Iterable[int]) -> int:
    """The K with the most tokens per second; the smallest of equals."""
    return max(sorted(candidates), key=lambda k: speeds.goodput(batch, k))


def speedup(speeds: Speeds, batch: int, k: int) -> float:
    """Against a launch without drafter."""
    return speeds.goodput(batch, k) / speeds.without(batch)


def safest_k(speeds: Speeds, batches: Sequence[int], candidates: Iterable[int]) -> int:
    """The K that is best at the one of these batch sizes where it does worst; the smallest of equals."""
    return max(sorted(candidates), key=lambda k: min(speedup(speeds, batch, k) for batch in batches))


def paying_batches(speeds: Speeds, candidates: Sequence[int], most: int) -> tuple[int, int] | None:
    """First and last batch size of the first stretch where some K > 0 beats no drafter; None: there is none.

    The stretch of a dense model begins at 1. One of experts may begin later: more requests read more of them
    anyhow. most: where to stop looking.
    """
    drafting = [k for k in candidates if k > 0]
    first = last = None
    for batch in range(1, most + 1):
        if any(speedup(speeds, batch, k) > 1.0 for k in drafting):
            first, last = first or batch, batch
        elif first is not None:
            break
    return None if first is None or last is None else (first, last)


def dollars_per_million_tokens(price_per_hour: float, tokens_per_second: float) -> float:
    """(price per hour / 3600) / (tokens per second / 1,000,000), of output tokens."""
    return (price_per_hour / 3600.0) / (tokens_per_second / 1e6)
