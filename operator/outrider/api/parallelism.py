"""How one replica of an engine spreads over GPUs, and over nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule


class Parallelism(ApiModel):
    """How one replica spreads over GPUs."""

    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    """Tensor-parallel size."""
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1
    """Pipeline-parallel size."""
    data: Annotated[int, Field(ge=1, le=64)] = 1
    """Data-parallel size inside a replica. Above 1 the engine keeps one K from start to start: tune it by
    `actuation: Rollout`, or not at all."""
    expert: bool = False
    """Spread the experts of a mixture-of-experts model."""
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Pods per replica, each with its share of tensor x pipeline. Above 1 a replica is a group of a
    LeaderWorkerSet, which the cluster must have."""

    @rule(
        "(self.tensor * self.pipeline) % self.nodes == 0",
        "spec.parallelism.nodes: {nodes} nodes cannot share {tensor} x {pipeline} GPUs (tensor x pipeline) "
        "equally; use a divisor of that product",
        field=".nodes",
    )
    def _nodes_share_alike(self) -> bool:
        return self.tensor * self.pipeline % self.nodes == 0

    @rule(
        "self.nodes == 1 || self.data == 1",
        "spec.parallelism: data: {data} with nodes: {nodes} is not available yet; use data: 1 or nodes: 1",
        field=".data",
    )
    def _data_parallel_stays_on_a_node(self) -> bool:
        return self.nodes == 1 or self.data == 1

    @property
    def gpus(self) -> int:
        """Ranks, and so GPUs, of one replica."""
        return self.tensor * self.pipeline * self.data

    @property
    def gpus_per_pod(self) -> int:
        """The same in each of its pods."""
        return self.gpus // self.nodes
