"""Who may reach a port, as an administrator writes it: peers of a NetworkPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel

from outrider.api.json_object import Json

MAX_PEERS = 64
OWN_NAMESPACE: tuple[Json, ...] = ({"podSelector": {}},)
"""The pods of the model's own namespace."""


@dataclass(frozen=True, slots=True)
class ControlPeers:
    """The pods of the operator, as a policy finds them, and who else may reach engines."""

    namespace: str
    labels: Mapping[str, str]
    clients: tuple[Json, ...] = OWN_NAMESPACE
    """Peers of a NetworkPolicy that may come to the serving port: gateways, clients, Prometheus."""

    @property
    def operator(self) -> Json:
        """The operator as a peer."""
        return {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "podSelector": {"matchLabels": dict(self.labels)},
        }


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


def _cidr(text: str) -> str:
    ip_network(text)
    return text


_Cidr = Annotated[str, AfterValidator(_cidr)]


class _Expression(_Part):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class _Selector(_Part):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


class _Block(_Part):
    cidr: _Cidr
    except_: Annotated[list[_Cidr], Field(alias="except")] = []


class _Peer(_Part):
    namespace_selector: _Selector | None = None
    pod_selector: _Selector | None = None
    ip_block: _Block | None = None

    @model_validator(mode="after")
    def _says_who(self) -> Self:
        selectors = self.namespace_selector is not None or self.pod_selector is not None
        if selectors == (self.ip_block is not None):
            raise ValueError(
                "a peer has namespaceSelector, podSelector or both, or else ipBlock;"
                " all pods of the cluster are namespaceSelector: {}"
            )
        return self


_PEERS: TypeAdapter[list[_Peer]] = TypeAdapter(Annotated[list[_Peer], Field(max_length=MAX_PEERS)])


def read_peers(text: str) -> tuple[Json, ...]:
    """The peers of a JSON list such as ``[{"podSelector": {}}]``, as they are written there.

    Raises:
        ValueError: no list of peers.
    """
    peers = _PEERS.validate_json(text)
    return tuple(peer.model_dump(mode="json", by_alias=True, exclude_unset=True) for peer in peers)
