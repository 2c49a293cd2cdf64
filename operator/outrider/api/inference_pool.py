"""``spec.inferencePool``: the pods as a backend of gateways with the Gateway API Inference Extension."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import ModelName, Name

Port = Annotated[int, Field(ge=1, le=65535)]


class FailureMode(StrEnum):
    """What a gateway does while the endpoint picker does not answer."""

    FAIL_OPEN = "FailOpen"
    FAIL_CLOSE = "FailClose"


class CanaryInPool(StrEnum):
    """Whether the canary is in the pool."""

    INCLUDE = "Include"
    EXCLUDE = "Exclude"


class EndpointPicker(ApiModel):
    """The endpoint picker of a pool, which chooses the pod of each request."""

    service: Name
    """Its Service, in the model's namespace. Outrider does not create it."""
    port: Port = 9002
    """Port of that Service. Default: 9002."""
    failure_mode: FailureMode = FailureMode.FAIL_OPEN
    """FailOpen (default): the gateway chooses a pod while the picker does not answer. FailClose: the gateway
    refuses the request."""


class InferencePool(ApiModel):
    """An InferencePool with the pods of this model, or membership in that of another model."""

    endpoint_picker: EndpointPicker | None = None
    """Outrider creates an InferencePool of the model's name, with this endpoint picker."""
    member_of: ModelName | None = None
    """SpeculativeModel in this namespace whose pool these pods join, in place of a pool of their own."""
    port: Port | None = None
    """Port of the pods at which the gateway reaches them, such as that of a routing sidecar. Default:
    engine.port."""
    canary: CanaryInPool = CanaryInPool.INCLUDE
    """Include (default): the canary is in the pool. Exclude: it gets requests of the Service alone."""

    @rule(
        "has(self.endpointPicker) != has(self.memberOf)",
        "spec.inferencePool: write endpointPicker for a pool of this model, or memberOf for that of another, "
        "and only one of both",
        field=".endpointPicker",
    )
    def _has_a_pool_or_joins_one(self) -> bool:
        return (self.endpoint_picker is None) != (self.member_of is None)

    @rule(
        "!has(self.memberOf) || !has(self.port)",
        "spec.inferencePool.port: the pool of {memberOf} has the port for all its members; leave it out",
        field=".port",
    )
    def _members_have_the_port_of_the_pool(self) -> bool:
        return self.member_of is None or self.port is None
