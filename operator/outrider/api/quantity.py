"""Scalars in the form of Kubernetes: durations, quantities, and URIs of artifacts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, WithJsonSchema
from pydantic.fields import FieldInfo

from outrider.api.base import Rule, TextRule, text_rules
from outrider.api.text import shortened

DURATION_PATTERN = "([0-9]+([.][0-9]+)?(ms|s|m|h))+"
QUANTITY_PATTERN = "[0-9]+([.][0-9]+)?([eE][0-9]+|m|k|[KMGTPE]i?)?"

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Name of a Kubernetes object."""
MAX_NAME_LENGTH = 52
"""Characters of a model's name. The rest of the 63 of a DNS label is for the suffixes of children."""
MODEL_NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
ModelName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=MODEL_NAME_PATTERN)]
"""Name of a SpeculativeModel."""
DNS_LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL_PATTERN)]
"""Name of a part of a pod, of a namespace, or of another thing whose name is one label of a DNS name."""
LabelValue = Annotated[str, Field(max_length=63, pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
"""Value of a label."""

MAX_DURATION = "8760h"
"""A year: longer than any wait here, and within the limits of clocks and of the API server."""


def _in_hours(text: str) -> str | None:
    """Days and weeks, which Kubernetes does not have."""
    found = re.fullmatch(r"([0-9]{1,4})([dw])", text)
    return None if found is None else f"{int(found[1]) * {'d': 24, 'w': 168}[found[2]]}h"


_FORM = TextRule(
    DURATION_PATTERN,
    "'{}' is not a duration; write a duration such as 30s, 20m or 1h30m",
    meant=_in_hours,
)


def _durations(
    *, least: str = "0s", most: str = MAX_DURATION, units: tuple[str, ...] = ("s",)
) -> tuple[FieldInfo, AfterValidator, BeforeValidator]:
    """Return the rules of a duration from ``least`` to ``most``, for both sides.

    units: that a number without a unit probably has.
    """
    is_one = f"self.matches('^({DURATION_PATTERN})$')"
    longest = f"'{{}}' is too long; write at most {most}"
    shortest = f"'{{}}' is too short; write at least {least}"
    rules = [_FORM.to_wire()]
    rules.append(Rule(f"!{is_one} || duration(self) <= duration('{most}')", longest).to_wire())
    if duration_seconds(least) > 0:
        rules.append(Rule(f"!{is_one} || duration(self) >= duration('{least}')", shortest).to_wire())

    def check(text: str) -> str:
        if not _FORM.holds(text):
            raise ValueError(_FORM.message_for(text))
        if duration_seconds(text) > duration_seconds(most):
            raise ValueError(longest.format(text))
        if duration_seconds(text) < duration_seconds(least):
            raise ValueError(shortest.format(text))
        return text

    def unit(value: object) -> object:
        """Refuse a number, and suggest only what `check` takes."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        fitting = [text for text in (f"{value}{unit}" for unit in units) if _suits(text, least, most)]
        remedy = " or ".join(fitting) or f"a duration from {least} to {most}"
        raise ValueError(f"{shortened(str(value), 40)} is a number without a unit; write {remedy}")

    wire: list[JsonValue] = [dict(rule) for rule in rules]
    schema = FieldInfo(json_schema_extra={"x-kubernetes-validations": wire})
    return schema, AfterValidator(check), BeforeValidator(unit)


def _suits(text: str, least: str, most: str) -> bool:
    return _FORM.holds(text) and duration_seconds(least) <= duration_seconds(text) <= duration_seconds(most)


_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration_seconds(text: str) -> float:
    """Return the seconds of a span of time as Kubernetes writes it: ``30ms``, ``20m``, ``1h30m``.

    Raises:
        ValueError: not a duration.
    """
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration such as 30ms, 20m or 1h30m")
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", text)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


Patience = Annotated[str, Field(max_length=32), *_durations(least="10s")]
"""Time before Outrider acts, at least 10s. A shorter time would end before a pod is scheduled."""

Latency = Annotated[str, Field(max_length=32), *_durations(least="1ms", most="10m", units=("ms", "s"))]
"""Limit of a latency, from 1ms to 10m."""

RestartInterval = Annotated[str, Field(max_length=32), *_durations(least="1m")]
"""Time between restarts of engines. Back-offs are multiples of it, so zero would mean no pause."""


def _quantity(value: int | str) -> int | str:
    if isinstance(value, int):
        holds = value >= 0
    else:
        holds = re.fullmatch(QUANTITY_PATTERN, value, re.ASCII) is not None
    if not holds:
        raise ValueError(_not_a_quantity(str(value)))
    return value


def _not_a_quantity(text: str) -> str:
    said = f"'{shortened(text, 40)}' is not a quantity"
    found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) ?([kmgtpe])(i?)b?", text, re.ASCII | re.IGNORECASE)
    if found is None:
        return f"{said}; write a quantity such as 1, 500m or 64Gi"
    number, unit = found[1], found[2].upper()
    if found[3]:
        return f"{said}; did you mean {number}{unit}i?"
    decimal = unit.replace("K", "k")
    return f"{said}; write {number}{decimal} (powers of 1000) or {number}{unit}i (powers of 1024)"


def _no_fraction(value: object) -> object:
    """Refuse a fraction as a number, because Kubernetes accepts it only as text. 3.0 is an integer there."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, float):
        raise ValueError(f"{value:g} is a number with a fraction; write it in thousandths: {value * 1000:g}m")
    return value


Quantity = Annotated[
    int | Annotated[str, Field(max_length=32)],
    BeforeValidator(_no_fraction),
    AfterValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 32,
            "minimum": 0,
            "pattern": f"^({QUANTITY_PATTERN})$",
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A Kubernetes resource quantity: ``1``, ``500m``, ``64Gi``.

It has a pattern instead of a CEL rule. For a value that may be a number, Kubernetes 1.30 does not know the
length. So a rule for each entry of a map would exceed the cost limit of a definition.
"""

AUTO = "auto"
MAX_CONTEXT = 100_000_000
"""Limit in tokens, above every model's context."""

_THOUSANDS = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}
_CONTEXT_PATTERN = f"{AUTO}|[0-9]{{1,9}}[kKmM]?|[0-9]{{1,9}}[.][0-9]{{1,9}}[km]"


def _context(value: object) -> object:
    """Convert vLLM's human-readable numbers; the type checks everything else."""
    if not isinstance(value, str) or value == AUTO:
        return value
    if re.fullmatch(_CONTEXT_PATTERN, value, re.ASCII) is None:
        raise ValueError(
            f"'{shortened(value, 40)}' is not a number of tokens; write one such as 8192, 160K (of 1024) or "
            "25.6k (of 1000), or auto"
        )
    number, factor = (value[:-1], _THOUSANDS[value[-1]]) if value[-1].isalpha() else (value, 1)
    return int(float(number) * factor)


ContextLength = Annotated[
    Annotated[int, Field(ge=1, le=MAX_CONTEXT)] | Literal["auto"],
    BeforeValidator(_context),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maximum": MAX_CONTEXT,
            "maxLength": 32,
            "minimum": 1,
            "pattern": f"^({_CONTEXT_PATTERN})$",
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number of tokens as vLLM takes it: ``8192``, ``160K`` (of 1024), ``25.6k`` (of 1000), or ``auto``."""

_PART = "[A-Za-z0-9][A-Za-z0-9._-]*"
_HOST = "[a-z0-9][a-z0-9.-]*(:[0-9]+)?"
_TAG = ":[A-Za-z0-9_][A-Za-z0-9._-]*"
_DIGEST = "@sha256:[a-f0-9]{64}"
_BUCKET = "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"


def _on_the_hub(text: str) -> str | None:
    """Return the URI of a repository in the form of the web or of vLLM."""
    bare = re.sub("^(https?://)?(huggingface[.]co|hf[.]co)/", "", text)
    found = re.fullmatch(f"({_PART}/{_PART})(/(tree|blob|resolve)/.*)?/?", bare, re.ASCII)
    return None if found is None else f"hf://{found[1]}"


_PLACES = text_rules(
    TextRule(
        "(hf|s3|oci|pvc|file)://.*",
        "'{}' has no scheme that Outrider knows; write hf://organisation/name for the Hugging Face hub, "
        "or s3://bucket/folder, oci://registry/image:tag, pvc://claim/path, or file:///path in the image",
        meant=_on_the_hub,
    ),
    TextRule(
        f"hf://{_PART}/{_PART}",
        "'{}': hf:// takes an organisation and a name, such as hf://Qwen/Qwen3-8B; a commit belongs into "
        "revision",
        when="hf://",
    ),
    TextRule(
        f"s3://{_BUCKET}(/{_PART})*",
        "'{}': s3:// takes a bucket and the folder in it, such as s3://models/qwen3-8b",
        when="s3://",
    ),
    TextRule(
        f"oci://{_HOST}(/[a-z0-9][a-z0-9._-]*)+({_TAG}({_DIGEST})?|{_DIGEST})(#{_PART}(/{_PART})*)?",
        "'{}': oci:// takes an image with its registry and a tag or digest, and after # the folder in it, "
        "such as "
        "oci://ghcr.io/organisation/qwen3-8b:1#models",
        when="oci://",
    ),
    TextRule(
        "pvc://[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9._/-]*)?",
        "'{}': pvc:// takes the name of a claim and a path in it, such as pvc://models/qwen3-8b",
        when="pvc://",
    ),
    TextRule(
        "file:///[A-Za-z0-9._/-]+",
        "'{}': file:// takes an absolute path in the image, such as file:///models/qwen3-8b",
        when="file://",
    ),
)

Uri = Annotated[str, Field(max_length=512), *_PLACES]
"""Address of a model: ``hf://org/name``, ``s3://bucket/folder``, ``oci://registry/image:tag#folder``,
``pvc://claim/path`` or ``file:///path``."""


def _three_numbers(text: str) -> str | None:
    """Return the version in an image tag, or that of a release without its patch number."""
    found = re.fullmatch(r"v?([0-9]+[.][0-9]+)([.][0-9]+)?", text, re.ASCII)
    return None if found is None else f"{found[1]}{found[2] or '.0'}"


def _in_quotes(value: object) -> object:
    """Refuse a number: YAML parses 0.33 as one, and drops the end of 0.30."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    meant = f"{value}.0" if isinstance(value, float) else f"{value}.0.0"
    raise ValueError(f'YAML reads {value} without quotes as a number; write version: "{meant}"')


Version = Annotated[
    str,
    Field(max_length=32),
    *text_rules(
        TextRule(
            "[0-9]+[.][0-9]+[.][0-9]+[-+.a-z0-9]*",
            "'{}' is not a version; write three numbers, such as 0.33.0. The tag of an image belongs into "
            "spec.engine.image",
            meant=_three_numbers,
        )
    ),
    BeforeValidator(_in_quotes),  # The last of these runs first.
]
"""A version of the engine."""

MAX_PODS = 10_000

_PERCENTAGE = "(0|[1-9][0-9]{0,2})%"

_PODS_OR_SHARE = Rule(
    f"type(self) == int ? self >= 0 && self <= {MAX_PODS} : string(self).matches('^{_PERCENTAGE}$')",
    f"write a number of pods from 0 to {MAX_PODS}, or a percentage such as 25%",
)


def _pods_or_share(value: int | str) -> int | str:
    if not (0 <= value <= MAX_PODS if isinstance(value, int) else re.fullmatch(_PERCENTAGE, value)):
        raise ValueError(_PODS_OR_SHARE.message)
    return value


IntOrPercent = Annotated[
    int | str,
    AfterValidator(_pods_or_share),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 16,
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [_PODS_OR_SHARE.to_wire()],
        }
    ),
]
"""A number of pods, or a percentage of them: ``1``, ``25%``."""


class Scheme(StrEnum):
    """Sources of a model."""

    HF = "hf"
    S3 = "s3"
    OCI = "oci"
    PVC = "pvc"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed `Uri`.

    ``path``: ``org/name`` for hf, inside the bucket for s3, inside the image for oci, inside the claim for
    pvc, absolute for file.
    """

    scheme: Scheme
    path: str
    claim: str | None = None
    """Name of the claim, for pvc."""
    image: str | None = None
    """Reference of the image, for oci."""
    bucket: str | None = None
    """Name of the bucket, for s3."""


def parse_uri(uri: str) -> Location:
    """Split a `Uri` into its parts."""
    scheme, _, rest = uri.partition("://")
    if scheme == Scheme.PVC:
        claim, _, path = rest.partition("/")
        return Location(Scheme.PVC, path.strip("/"), claim)
    if scheme == Scheme.S3:
        bucket, _, folder = rest.partition("/")
        return Location(Scheme.S3, folder, bucket=bucket)
    if scheme == Scheme.OCI:
        image, _, folder = rest.partition("#")
        return Location(Scheme.OCI, folder, image=image)
    return Location(Scheme(scheme), rest)
