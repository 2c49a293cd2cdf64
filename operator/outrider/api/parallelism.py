"""The GPUs and nodes of one replica of an engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule


class Parallelism(ApiModel):
    """The GPUs and nodes of one replica."""

    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    """Tensor-parallel size. Default: 1."""
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1
    """Pipeline-parallel size. Default: 1."""
    data: Annotated[int, Field(ge=1, le=64)] = 1
    """Data-parallel size inside a replica. Above 1, an engine keeps one K until it restarts, so tuning needs
    `actuation: Rollout`. Default: 1."""
    expert: bool = False
    """Whether to spread the experts of a mixture-of-experts model over the GPUs. Default: false."""
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Pods per replica, each with an equal part of tensor x pipeline. Above 1, a replica is a group of a
    LeaderWorkerSet, which the cluster must have. Default: 1."""

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
        "spec.parallelism: data is {data} and nodes is {nodes}, and Outrider makes no data-parallel replicas "
        "of several nodes; use data: 1 or nodes: 1",
        field=".data",
    )
    def _data_parallel_stays_on_a_node(self) -> bool:
        return self.nodes == 1 or self.data == 1

    @property
    def gpus(self) -> int:
        """Number of GPUs of one replica."""
        return self.tensor * self.pipeline * self.data

    @property
    def gpus_per_pod(self) -> int:
        """Number of GPUs of each pod."""
        return self.gpus // self.nodes
