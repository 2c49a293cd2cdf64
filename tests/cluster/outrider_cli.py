"""The command line as a user runs it, against the cluster of the tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.annotations import OVERRIDE, OVERRIDE_UNTIL
from tests.cluster.kubectl import Object

STAND_IN = Path(__file__).with_name("guidellm_stand_in.py")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> dict[str, Any]:
        """What ``--json`` printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def program() -> str:
    """The installed command."""
    return str(Path(sys.executable).with_name("outrider"))


def outrider(*words: str, seconds: float = 120.0) -> Ended:
    """Run it to its end. KUBECONFIG comes from the environment."""
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False, timeout=seconds)
    return Ended(done.returncode, done.stdout, done.stderr)


def guidellm() -> str:
    """The real one where it is."""
    return shutil.which("guidellm") or f"{sys.executable} {STAND_IN}"


def has_no_override(seen: Object | None) -> bool:
    """Nothing of a bench is left."""
    annotations = ((seen or {}).get("metadata") or {}).get("annotations") or {}
    return not {OVERRIDE, OVERRIDE_UNTIL} & set(annotations)
