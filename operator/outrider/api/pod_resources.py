"""``spec.resources``: GPUs, memory and processors of the engine container."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import DnsLabel, Name, Quantity


class DeviceClaim(ApiModel):
    """GPUs by Dynamic Resource Allocation. Each pod gets its own claim."""

    name: DnsLabel
    """Name of the claim in the pod."""
    resource_claim_template_name: Name
    """Name of its ResourceClaimTemplate, in the model's namespace."""


class Resources(ApiModel):
    """Compute resources of the engine container."""

    limits: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(default_factory=dict)
    """Upper bounds. Example: nvidia.com/gpu: 1."""
    requests: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(default_factory=dict)
    """Amounts that the scheduler reserves. Example: memory: 64Gi."""
    claims: Annotated[list[DeviceClaim], Field(fail_fast=True, max_length=8)] = Field(default_factory=list)
    """Devices in place of limits such as nvidia.com/gpu. Kubernetes 1.34 or newer."""

    @rule(
        "!has(self.claims) || self.claims.all(c, self.claims.exists_one(other, other.name == c.name))",
        "spec.resources.claims: every claim needs a name of its own",
        field=".claims",
    )
    def _claims_have_names_of_their_own(self) -> bool:
        return len({claim.name for claim in self.claims}) == len(self.claims)
