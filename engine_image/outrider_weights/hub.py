"""Snapshots of the Hugging Face hub in its own cache layout, of which other tools make use, too."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.hf_api import RepoFile

from outrider_weights.failure import DownloadError, Reason
from outrider_weights.snapshot import (
    ABANDONED_SECONDS,
    MAX_FILES,
    File,
    Snapshot,
    file_below,
    plain_name,
    unwanted,
)
from outrider_weights.wanted import Artifact

CACHE = "hub"
"""Folder on the volume, as below HF_HOME."""

_SHA256_DIGITS = 64
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
"""SHA-1, or SHA-256."""


class HubSnapshot(Snapshot):
    """One commit of a repository, without what no engine loads."""

    def __init__(self, artifact: Artifact, commit: str, files: Sequence[File]) -> None:
        self._repository = artifact.repository
        self._home = f"{CACHE}/models--{artifact.repository.replace('/', '--')}"
        super().__init__(
            role=artifact.role,
            name=f"hf://{artifact.repository}",
            revision=commit,
            path=f"{self._home}/snapshots/{commit}",
            files=files,
        )

    def sweep(self, volume: Path, *, shared: bool) -> None:
        """See `Snapshot`. The library gives each attempt its own files, so the last one's are of no use."""
        oldest = time.time() - ABANDONED_SECONDS
        for piece in (volume / self._home / "blobs").glob("*.incomplete"):
            if not shared or piece.stat().st_mtime < oldest:
                piece.unlink(missing_ok=True)

    def entries(self, volume: Path) -> Iterable[Path]:
        """See `Snapshot`. A blob's name is the digest of its content."""
        folder, digests = volume / self._home / "blobs", {file.digest for file in self.files}
        entries = folder.iterdir() if folder.is_dir() else ()
        return (entry for entry in entries if entry.name.split(".")[0] in digests)

    def bring(self, volume: Path) -> None:
        """See `Snapshot`. All files are hashed; one that differs is removed for the next attempt."""
        for file in self.files:
            plain_name(file.name, source="the file")
        snapshot_download(
            self._repository,
            revision=self.revision,
            cache_dir=volume / CACHE,
            allow_patterns=[file.name for file in self.files],
        )
        for file in self.files:
            self._verify(file, file_below(volume / self.path, file.name, root=volume / self._home))

    def _verify(self, file: File, path: Path) -> None:
        if not path.is_file():
            raise DownloadError(Reason.FAILED, f"{file.name} of {self._repository} is missing")
        if _digest(path, file) != file.digest:
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            message = f"{file.name} of {self._repository} is not what the hub has at this commit"
            raise DownloadError(
                Reason.CHECKSUM, f"{message}; it is fetched again. If this stays, check the volume"
            )


def resolve(artifact: Artifact) -> HubSnapshot:
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
        islice(api.list_repo_tree(artifact.repository, recursive=True, revision=commit), MAX_FILES + 1)
    )
    if len(tree) > MAX_FILES:
        raise DownloadError(Reason.FAILED, f"{artifact.repository} has more than {MAX_FILES} files")
    files = [
        File(
            plain_name(entry.path, source="the file"),
            entry.size,
            entry.lfs.sha256 if entry.lfs else entry.blob_id,
        )
        for entry in tree
        if isinstance(entry, RepoFile)
    ]
    left_out = unwanted(file.name for file in files)
    return HubSnapshot(artifact, commit, [file for file in files if file.name not in left_out])


def _digest(path: Path, file: File) -> str:
    """SHA-256 of large files, and for others the SHA-1 under which git stores them."""
    git = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    large = file.digest is not None and len(file.digest) == _SHA256_DIGITS
    with path.open("rb") as content:
        return hashlib.file_digest(content, hashlib.sha256 if large else lambda: git).hexdigest()
