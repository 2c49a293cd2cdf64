"""How a bench keeps what it found: with the command that made it, its date and its machine."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path


def head(module: str, arguments: Sequence[str], began: datetime) -> dict[str, object]:
    """What every result begins with. module: that ``python -m`` ran."""
    return {
        "command": shlex.join(["python", "-m", module, *arguments]),
        "date": began.isoformat(timespec="seconds"),
        "machine": {"kind": platform.platform(), "cores": os.cpu_count()},
    }


def write(output: Path, result: Mapping[str, object]) -> None:
    """Make or replace the file, and the folders above it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
