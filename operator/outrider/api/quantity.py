"""Scalars with the spelling that Kubernetes users know: durations, quantities, artifact URIs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from outrider.api.base import Rule

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?([eE][0-9]+|m|k|[KMGTPE]i?)?$"
URI_PATTERN = (
    r"^((hf|s3|oci)://[A-Za-z0-9][A-Za-z0-9._:/-]*"
    r"|pvc://[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9._/-]*)?"
    r"|file:///[A-Za-z0-9._/-]+)$"
)

LONGEST_DURATION = "8760h"
"""A year: longer than anything here takes, and within what clocks and the API server can count."""


_BOUND = Rule(
    f"duration(self) <= duration('{LONGEST_DURATION}')", f"a duration is at most {LONGEST_DURATION}"
)


def _bounded(text: str) -> str:
    if duration_seconds(text) > duration_seconds(LONGEST_DURATION):
        raise ValueError(_BOUND.message)
    return text


Duration = Annotated[
    str,
    StringConstraints(pattern=DURATION_PATTERN, max_length=32),
    AfterValidator(_bounded),
    Field(json_schema_extra={"x-kubernetes-validations": [_BOUND.to_wire()]}),
]
"""A span of time as Kubernetes writes it: ``30ms``, ``20m``, ``1h30m``."""

Quantity = Annotated[
    int | Annotated[str, StringConstraints(pattern=QUANTITY_PATTERN, max_length=32)],
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A Kubernetes resource quantity: ``1``, ``500m``, ``64Gi``."""

Uri = Annotated[str, Field(pattern=URI_PATTERN, max_length=512)]
"""Where a model lies: ``hf://org/name``, ``pvc://claim/path``, ``file:///path``, ``s3://…``, ``oci://…``."""

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration_seconds(text: str) -> float:
    """Seconds of a `Duration`.

    Raises:
        ValueError: not a duration.
    """
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration such as 30ms, 20m or 1h30m")
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", text)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


class Scheme(StrEnum):
    """Kinds of places that a model can come from."""

    HF = "hf"
    S3 = "s3"
    OCI = "oci"
    PVC = "pvc"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed `Uri`. ``path``: ``org/name`` for hf, the path inside the claim for pvc, absolute for file."""

    scheme: Scheme
    path: str
    claim: str | None = None


def parse_uri(uri: str) -> Location:
    """Split a `Uri` into its parts."""
    scheme, _, rest = uri.partition("://")
    if scheme == Scheme.PVC:
        claim, _, path = rest.partition("/")
        return Location(Scheme.PVC, path.strip("/"), claim)
    return Location(Scheme(scheme), rest)
