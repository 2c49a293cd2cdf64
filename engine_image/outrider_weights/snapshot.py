"""Weights as they are at one moment, wherever they come from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Protocol

from outrider_weights.failure import DownloadError, Reason

_NEVER = ("original/*", "*.gguf", "*.onnx", "*.msgpack", "*.h5", "*.ot", "*.tflite")
"""The same weights in forms that engines do not load."""
_NOT_BESIDE_SAFETENSORS = ("*.bin", "*.pt", "*.pth")

ABANDONED_SECONDS = 3600.0
"""Nobody has written to a piece for so long: no download is at it any more."""


class Snapshot(Protocol):
    """Files that belong together, and cannot become others."""

    @property
    def role(self) -> str:
        """``model`` or ``drafter``."""

    @property
    def name(self) -> str:
        """For people, such as hf://organisation/name."""

    @property
    def revision(self) -> str:
        """Names these very files."""

    @property
    def size(self) -> int:
        """Bytes of all files."""

    @property
    def path(self) -> str:
        """Where the engine finds them, from the root of the volume."""

    def sweep(self, volume: Path, *, shared: bool) -> None:
        """Remove pieces that a killed download left and that no other makes use of.

        shared: others may be at it, so only what nobody has written to for an hour goes.
        """

    def on_disk(self, volume: Path) -> int:
        """Bytes of these files that are there, pieces included."""

    def bring(self, volume: Path) -> None:
        """Fetch what is missing, and check all.

        Raises:
            Exception: `failure.explained` knows them.
        """


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
        told = f"{missing / 1e9:.1f} GB are missing and the volume has {free / 1e9:.1f} GB free"
        raise DownloadError(Reason.VOLUME_FULL, f"{told}: use a larger claim, or remove what nobody needs")
