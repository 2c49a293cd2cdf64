"""Weights as they are at one moment, wherever they come from."""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from outrider_weights.failure import DownloadError, Reason

_NEVER = ("original/*", "*.gguf", "*.onnx", "*.msgpack", "*.h5", "*.ot", "*.tflite")
"""The same weights in forms that engines do not load."""
_NOT_BESIDE_SAFETENSORS = ("*.bin", "*.pt", "*.pth")

MAX_FILES = 100_000
"""In one listing. The largest models have some thousand."""
_MAX_NAME = 1024
_PLAIN = re.compile(r"[^\x00-\x1f\x7f\\]+")

ABANDONED_SECONDS = 3600.0
"""Age of a piece that no download writes to any more."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a snapshot. digest: what names its content: a hash, or an object's ETag."""

    name: str
    size: int
    digest: str | None


class Snapshot(ABC):
    """Files that belong together, and cannot become others.

    role: ``model`` or ``drafter``.
    name: for people, such as hf://organisation/name.
    revision: names these very files.
    path: where the engine finds them, from the root of the volume.
    """

    def __init__(self, *, role: str, name: str, revision: str, path: str, files: Sequence[File]) -> None:
        self.role, self.name, self.revision, self.path = role, name, revision, path
        self.files = tuple(files)
        self.size = sum(file.size for file in files)

    def on_disk(self, volume: Path) -> int:
        """Bytes of these files that are there, pieces included."""
        done = 0
        for entry in self.entries(volume):
            # It may be renamed meanwhile.
            with suppress(FileNotFoundError):
                done += entry.stat().st_size if entry.is_file() else 0
        return min(done, self.size)

    @abstractmethod
    def entries(self, volume: Path) -> Iterable[Path]:
        """Files of this snapshot, and pieces of them. Folders among them are skipped."""

    @abstractmethod
    def sweep(self, volume: Path, *, shared: bool) -> None:
        """Remove pieces that a killed download left and that no other makes use of.

        shared: other downloads may use it, so only pieces without a write for an hour are removed.
        """

    @abstractmethod
    def bring(self, volume: Path) -> None:
        """Fetch what is missing, and check all.

        Raises:
            Exception: `failure.explained` knows them.
        """


def plain_name(name: str, *, source: str) -> str:
    """A name out of a listing, as that of a file below a folder. source: what the listing calls it.

    Raises:
        DownloadError: it would lie elsewhere, or no file can have it.
    """
    parts = name.split("/")
    if len(name) > _MAX_NAME or not _PLAIN.fullmatch(name) or {"", ".", ".."} & set(parts):
        raise DownloadError(
            Reason.FAILED, f"no file can have the name of {source} {name[:100]!r}: rename it there"
        )
    return name


def file_below(folder: Path, name: str, *, root: Path) -> Path:
    """The path of a file in a folder. It may be a link, as in the hub's layout, to a place below ``root``.

    Raises:
        DownloadError: it lies outside of ``root``, by its name or by a link on the way.
    """
    path = folder / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise DownloadError(Reason.FAILED, f"{path} leads outside of {root}: remove the link")
    return path


def unwanted(names: Iterable[str]) -> frozenset[str]:
    """Files that hold what others hold as well."""
    every = tuple(names)
    safe = any(name.endswith(".safetensors") and "/" not in name for name in every)
    patterns = _NEVER + (_NOT_BESIDE_SAFETENSORS if safe else ())
    return frozenset(name for name in every if any(fnmatch(name, pattern) for pattern in patterns))


def check_space(snapshots: Iterable[Snapshot], volume: Path) -> None:
    """Whether what is missing fits.

    Raises:
        DownloadError: it does not.
    """
    missing = sum(max(0, snapshot.size - snapshot.on_disk(volume)) for snapshot in snapshots)
    free = shutil.disk_usage(volume).free
    if missing > free:
        message = f"{missing / 1e9:.1f} GB are missing and the volume has {free / 1e9:.1f} GB free"
        raise DownloadError(
            Reason.VOLUME_FULL, f"{message}: use a larger claim, or remove files that are not needed"
        )
