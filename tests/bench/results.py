"""How a bench keeps what it found: with the command that made it, its commit, date and machine."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path


def head(module: str, arguments: Sequence[str], began: datetime) -> dict[str, object]:
    """What every result begins with. module: that ``python -m`` ran."""
    return {
        "command": shlex.join(["python", "-m", module, *arguments]),
        "commit": commit(),
        "date": began.isoformat(timespec="seconds"),
        "machine": {"kind": platform.platform(), "cores": os.cpu_count()},
    }


def commit() -> str:
    """That of the working tree, `-dirty` where files differ from it; "unknown" outside of a repository."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude", "*"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()


def write(output: Path, result: Mapping[str, object]) -> None:
    """Make or replace the file, and the folders above it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
