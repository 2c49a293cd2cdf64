"""What the operator asks for, out of the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider_weights.failure import DownloadError, Reason

VARIABLE = "OUTRIDER_WEIGHTS"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Weights on the Hugging Face hub.

    role: ``model`` or ``drafter``.
    repository: ``organisation/name`` on the hub.
    revision: commit, tag or branch; None for the hub's default branch.
    """

    role: str
    repository: str
    revision: str | None


@dataclass(frozen=True, slots=True)
class BucketArtifact:
    """Weights in a bucket of an object store that speaks S3.

    folder: below which the objects lie; "" for the whole bucket.
    revision: what that of the `BucketSnapshot` must be; None for what there is.
    endpoint: URL of the store; None for AWS, or for what the environment says.
    """

    role: str
    bucket: str
    folder: str
    revision: str | None
    endpoint: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a Job brings.

    folder: where the volume is mounted.
    shared: others may write to the volume at the same time.
    """

    folder: Path
    shared: bool
    artifacts: tuple[Artifact | BucketArtifact, ...]


def read(environment: Mapping[str, str]) -> Wanted:
    """The request.

    Raises:
        DownloadError: none, or one of another version of the operator.
    """
    try:
        raw = json.loads(environment[VARIABLE])
        artifacts = tuple(_artifact(each) for each in raw["artifacts"])
        return Wanted(Path(raw["folder"]), bool(raw["shared"]), artifacts)
    except (KeyError, TypeError, ValueError) as error:
        message = "image and operator are of different versions: use the image of this operator's release"
        raise DownloadError(Reason.FAILED, message) from error


def _artifact(raw: Mapping[str, Any]) -> Artifact | BucketArtifact:
    role, revision = raw["role"], raw.get("revision")
    if "bucket" in raw:
        return BucketArtifact(role, raw["bucket"], raw["folder"], revision, raw.get("endpoint"))
    return Artifact(role, raw["repository"], revision)
