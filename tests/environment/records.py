"""What earlier runs left behind: the key and the seconds of each stage, and hashes to make keys from."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Records:
    """Keys of finished stages and the seconds that each took, in one file each, kept between runs."""

    stamps: Path
    times: Path
    _keys: dict[str, str] = field(default_factory=dict)
    _seconds: dict[str, dict[str, float | str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.stamps.exists():
            self._keys = json.loads(self.stamps.read_text())
        if self.times.exists():
            self._seconds = json.loads(self.times.read_text()).get("stages", {})

    def matches(self, stage: str, key: str) -> bool:
        return self._keys.get(stage) == key

    def begin(self, stage: str) -> None:
        """Forgets the stage: an interrupted run must not look like a finished one."""
        with self._lock:
            self._keys.pop(stage, None)
            _write(self.stamps, self._keys)

    def done(self, stage: str, key: str, seconds: float) -> None:
        with self._lock:
            self._keys[stage] = key
            self._seconds[stage] = {"outcome": "done", "seconds": round(seconds, 1)}
            _write(self.stamps, self._keys)

    def skipped(self, stage: str) -> None:
        self._seconds[stage] = {**self._seconds.get(stage, {}), "outcome": "skipped"}

    def close(self, total: float, cluster: str) -> None:
        """Writes the time table. `seconds` of a skipped stage are those of its last real run."""
        _write(self.times, {"cluster": cluster, "totalSeconds": round(total, 1), "stages": self._seconds})


def _write(path: Path, content: object) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(path)


def fingerprint(*parts: str | Path) -> str:
    """Short hash of texts and of the names, modes and contents of files and folders."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode() + b"\0")
            continue
        files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
        for file in files:
            if "__pycache__" in file.parts:
                continue
            executable = os.access(file, os.X_OK)
            digest.update(f"{file.relative_to(part) if part.is_dir() else file.name} {executable}\0".encode())
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
