"""What the operator asks for, out of the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "OUTRIDER_WEIGHTS"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Weights of one kind."""

    role: str
    """``model`` or ``drafter``."""
    repository: str
    """``organisation/name`` on the hub."""
    revision: str | None
    """Commit, tag or branch; None for the hub's default branch."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a Job brings."""

    folder: Path
    """Where the volume is mounted."""
    shared: bool
    """Others may write to the volume at the same time."""
    artifacts: tuple[Artifact, ...]


def read(environment: Mapping[str, str]) -> Wanted:
    """The request.

    Raises:
        KeyError, TypeError, ValueError: none, or one of another version of the operator.
    """
    raw = json.loads(environment[VARIABLE])
    artifacts = tuple(Artifact(a["role"], a["repository"], a.get("revision")) for a in raw["artifacts"])
    return Wanted(Path(raw["folder"]), bool(raw["shared"]), artifacts)
