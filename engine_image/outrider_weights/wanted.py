"""What the operator asks for, out of the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "OUTRIDER_WEIGHTS"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Weights on the Hugging Face hub."""

    role: str
    """``model`` or ``drafter``."""
    repository: str
    """``organisation/name`` on the hub."""
    revision: str | None
    """Commit, tag or branch; None for the hub's default branch."""


@dataclass(frozen=True, slots=True)
class BucketArtifact:
    """Weights in a bucket of an object store that speaks S3."""

    role: str
    """As of `Artifact`."""
    bucket: str
    folder: str
    """Below which the objects lie; "" for the whole bucket."""
    revision: str | None
    """What `bucket.BucketSnapshot.revision` must be; None for what there is."""
    endpoint: str | None
    """URL of the store; None for AWS, or for what the environment says."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a Job brings."""

    folder: Path
    """Where the volume is mounted."""
    shared: bool
    """Others may write to the volume at the same time."""
    artifacts: tuple[Artifact | BucketArtifact, ...]


def read(environment: Mapping[str, str]) -> Wanted:
    """The request.

    Raises:
        KeyError, TypeError, ValueError: none, or one of another version of the operator.
    """
    raw = json.loads(environment[VARIABLE])
    artifacts = tuple(_artifact(told) for told in raw["artifacts"])
    return Wanted(Path(raw["folder"]), bool(raw["shared"]), artifacts)


def _artifact(told: Mapping[str, Any]) -> Artifact | BucketArtifact:
    role, revision = told["role"], told.get("revision")
    if "bucket" in told:
        return BucketArtifact(role, told["bucket"], told["folder"], revision, told.get("endpoint"))
    return Artifact(role, told["repository"], revision)
