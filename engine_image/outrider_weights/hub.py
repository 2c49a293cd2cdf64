"""Snapshots of the Hugging Face hub in its own cache layout, of which other tools make use, too."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.hf_api import RepoFile

from outrider_weights.failure import DownloadError, Reason
from outrider_weights.snapshot import (
    ABANDONED_SECONDS,
    MOST_FILES,
    file_below,
    plain_name,
    unwanted,
)
from outrider_weights.wanted import Artifact

CACHE = "hub"
"""Folder on the volume, as below HF_HOME."""

_PIECE = 1 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
"""SHA-1, or SHA-256."""


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
    def role(self) -> str:
        """Role of the artifact."""
        return self.artifact.role

    @property
    def name(self) -> str:
        """Its URI."""
        return f"hf://{self.artifact.repository}"

    @property
    def revision(self) -> str:
        """The commit."""
        return self.commit

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

    def sweep(self, volume: Path, *, shared: bool) -> None:
        """The library gives each attempt files of its own, so those of the last one are of no use."""
        oldest = time.time() - ABANDONED_SECONDS
        for piece in (volume / self.home / "blobs").glob("*.incomplete"):
            if not shared or piece.stat().st_mtime < oldest:
                piece.unlink(missing_ok=True)

    def on_disk(self, volume: Path) -> int:
        """Bytes of this commit's files that are there, pieces included."""
        folder = volume / self.home / "blobs"
        digests = {file.digest for file in self.files}
        done = 0
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.name.split(".")[0] in digests:
                try:
                    done += entry.stat().st_size
                except FileNotFoundError:  # Renamed meanwhile.
                    continue
        return min(done, self.size)

    def bring(self, volume: Path) -> None:
        """Files that are whole stay. All are hashed; one that differs is removed for the next attempt.

        Raises:
            Exception: the hub's or the volume's; `failure.explained` knows them.
        """
        for file in self.files:
            plain_name(file.name, source="the file")
        snapshot_download(
            self.artifact.repository,
            revision=self.commit,
            cache_dir=volume / CACHE,
            allow_patterns=[file.name for file in self.files],
        )
        for file in self.files:
            self._verify(file, file_below(volume / self.path, file.name, root=volume / self.home))

    def _verify(self, file: File, path: Path) -> None:
        if not path.is_file():
            raise DownloadError(Reason.FAILED, f"{file.name} of {self.artifact.repository} is missing")
        if _digest(path, file) != file.digest:
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            told = f"{file.name} of {self.artifact.repository} is not what the hub has at this commit"
            raise DownloadError(
                Reason.CHECKSUM, f"{told}; it is fetched again. If this stays, check the volume"
            )


def resolve(artifact: Artifact) -> Snapshot:
    """The commit that a revision names now, and what it holds.

    Raises:
        Exception: the hub's; `failure.explained` knows them.
    """
    api = HfApi()
    commit = api.repo_info(artifact.repository, revision=artifact.revision).sha
    # It becomes the name of a folder.
    if commit is None or not _COMMIT.fullmatch(commit):
        raise DownloadError(Reason.FAILED, f"the hub names no commit of {artifact.repository}")
    tree = list(
        islice(api.list_repo_tree(artifact.repository, recursive=True, revision=commit), MOST_FILES + 1)
    )
    if len(tree) > MOST_FILES:
        raise DownloadError(Reason.FAILED, f"{artifact.repository} has more than {MOST_FILES} files")
    files = [
        File(
            plain_name(entry.path, source="the file"),
            entry.size,
            entry.blob_id,
            entry.lfs.sha256 if entry.lfs else None,
        )
        for entry in tree
        if isinstance(entry, RepoFile)
    ]
    left_out = unwanted(file.name for file in files)
    return Snapshot(artifact, commit, tuple(file for file in files if file.name not in left_out))


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
