"""Snapshots of the Hugging Face hub in its own cache layout, of which other tools make use, too."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.hf_api import RepoFile

from outrider_weights.failure import DownloadError, Reason
from outrider_weights.wanted import Artifact

CACHE = "hub"
"""Folder on the volume, as below HF_HOME."""

_NEVER = ("original/*", "*.gguf", "*.onnx", "*.msgpack", "*.h5", "*.ot", "*.tflite")
"""The same weights in forms that engines do not load."""
_NOT_BESIDE_SAFETENSORS = ("*.bin", "*.pt", "*.pth")
_PIECE = 1 << 20
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class File:
    """One file of a commit. sha256: of large files; others have git's own hash."""

    name: str
    size: int
    blob: str
    sha256: str | None

    @property
    def digest(self) -> str:
        """What its content must hash to."""
        return self.sha256 or self.blob


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One commit of a repository, without what no engine loads."""

    artifact: Artifact
    commit: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)

    @property
    def home(self) -> str:
        """The repository's folder in the volume."""
        return f"{CACHE}/models--{self.artifact.repository.replace('/', '--')}"

    @property
    def path(self) -> str:
        """Where the engine finds it, from the root of the volume."""
        return f"{self.home}/snapshots/{self.commit}"


def resolve(artifact: Artifact) -> Snapshot:
    """The commit that a revision names now, and what it holds.

    Raises:
        Exception: the hub's; `failure.explained` knows them.
    """
    api = HfApi()
    commit = api.repo_info(artifact.repository, revision=artifact.revision).sha
    if commit is None:
        raise DownloadError(Reason.FAILED, f"the hub tells no commit of {artifact.repository}")
    tree = api.list_repo_tree(artifact.repository, recursive=True, revision=commit)
    files = [
        File(entry.path, entry.size, entry.blob_id, entry.lfs.sha256 if entry.lfs else None)
        for entry in tree
        if isinstance(entry, RepoFile)
    ]
    left_out = unwanted(file.name for file in files)
    return Snapshot(artifact, commit, tuple(file for file in files if file.name not in left_out))


def unwanted(names: Iterable[str]) -> frozenset[str]:
    """Files that hold what others hold as well."""
    every = tuple(names)
    safe = any(name.endswith(".safetensors") and "/" not in name for name in every)
    patterns = _NEVER + (_NOT_BESIDE_SAFETENSORS if safe else ())
    return frozenset(name for name in every if any(fnmatch(name, pattern) for pattern in patterns))


def sweep(snapshot: Snapshot, volume: Path, *, shared: bool) -> None:
    """Remove pieces that a killed download left: the library gives each attempt files of its own.

    shared: others may be at it, so only what nobody has written to for an hour goes.
    """
    oldest = time.time() - _ABANDONED_SECONDS
    for piece in (volume / snapshot.home / "blobs").glob("*.incomplete"):
        if not shared or piece.stat().st_mtime < oldest:
            piece.unlink(missing_ok=True)


def check_space(snapshots: Iterable[Snapshot], volume: Path) -> None:
    """Whether what is missing fits.

    Raises:
        DownloadError: it does not.
    """
    missing = sum(max(0, snapshot.size - on_disk(snapshot, volume)) for snapshot in snapshots)
    free = shutil.disk_usage(volume).free
    if missing > free:
        told = f"{missing / 1e9:.1f} GB are missing and the volume has {free / 1e9:.1f} GB free"
        raise DownloadError(Reason.VOLUME_FULL, f"{told}: use a larger claim, or remove what nobody needs")


def on_disk(snapshot: Snapshot, volume: Path) -> int:
    """Bytes of this commit's files that are there, pieces included."""
    folder = volume / snapshot.home / "blobs"
    digests = {file.digest for file in snapshot.files}
    done = 0
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name.split(".")[0] in digests:
            try:
                done += entry.stat().st_size
            except FileNotFoundError:  # Renamed meanwhile.
                continue
    return min(done, snapshot.size)


def download(snapshot: Snapshot, volume: Path) -> None:
    """Bring what is missing; files that are whole stay.

    Raises:
        Exception: the hub's or the volume's; `failure.explained` knows them.
    """
    snapshot_download(
        snapshot.artifact.repository,
        revision=snapshot.commit,
        cache_dir=volume / CACHE,
        allow_patterns=[file.name for file in snapshot.files],
    )


def verify(snapshot: Snapshot, volume: Path) -> None:
    """Hash every file; one that differs is removed, so that the next attempt brings it again.

    Raises:
        DownloadError: a file differs, or is missing.
    """
    for file in snapshot.files:
        path = volume / snapshot.path / file.name
        if not path.is_file():
            raise DownloadError(Reason.FAILED, f"{file.name} of {snapshot.artifact.repository} is missing")
        if _digest(path, file) != file.digest:
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            told = f"{file.name} of {snapshot.artifact.repository} is not what the hub has at this commit"
            raise DownloadError(
                Reason.CHECKSUM, f"{told}; it is fetched again. If this stays, check the volume"
            )


def _digest(path: Path, file: File) -> str:
    """SHA-256 of large files, and for others the SHA-1 under which git stores them."""
    if file.sha256 is not None:
        state = hashlib.sha256()
    else:
        state = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while piece := content.read(_PIECE):
            state.update(piece)
    return state.hexdigest()
