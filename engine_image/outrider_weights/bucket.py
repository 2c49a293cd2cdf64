"""Objects of a bucket that speaks S3, as files in a folder whose name changes with any of them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PreconditionError
from obstore.store import S3Store

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
from outrider_weights.wanted import BucketArtifact

if TYPE_CHECKING:
    from obstore.store import S3Config

CACHE = "s3"
"""Folder on the volume."""
CHECKSUMS = "SHA256SUMS"
"""A file beside the weights in the form of ``sha256sum``. An object's ETag is not always a hash of it."""

_PIECE = 16 << 20
"""Bytes of one request: a slow line ends it within its time, and what a kill costs is no more."""
_AT_ONCE = 8
_REQUEST_TIME = timedelta(minutes=5)
_RETRY_TIME = timedelta(seconds=60)
_MAX_NAME = 100
_KEYS = (
    "give spec.cache.s3.secret keys that may list and read it, or the pods' service account such an identity"
)
_OTHER_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_NO_KEYS = ("/latest/api/token", "instance metadata")
"""Words in errors of the last place where the library looks for keys."""


class BucketSnapshot(Snapshot):
    """What lay in a folder when it was listed, without what no engine loads."""

    def __init__(self, artifact: BucketArtifact, files: Sequence[File]) -> None:
        """The revision is the digest of the names, sizes and ETags of all objects."""
        listed = json.dumps([[file.name, file.size, file.digest] for file in files])
        revision = hashlib.sha256(listed.encode()).hexdigest()[:40]
        last = artifact.folder.rpartition("/")[2][:_MAX_NAME] or "root"
        path = f"{CACHE}/{artifact.bucket}/{last}/{revision}"
        super().__init__(role=artifact.role, name=_uri(artifact), revision=revision, path=path, files=files)
        self._artifact = artifact

    def sweep(self, volume: Path, *, shared: bool) -> None:
        """See `Snapshot`. Folders of other objects are not finished: the objects were changed meanwhile."""
        whole = volume / self.path
        oldest = time.time() - ABANDONED_SECONDS
        for folder in whole.parent.glob("*.incomplete"):
            if folder != self._unfinished(volume) and (not shared or _last_written(folder) < oldest):
                shutil.rmtree(folder, ignore_errors=True)

    def entries(self, volume: Path) -> Iterable[Path]:
        """See `Snapshot`."""
        folder = self._folder(volume)
        return folder.rglob("*") if folder.is_dir() else ()

    def bring(self, volume: Path) -> None:
        """See `Snapshot`. Each object is requested at its listed ETag; a piece continues where it ended.

        The folder gets its name when all is there and agrees with `CHECKSUMS`, where there is one.
        """
        whole = volume / self.path
        whole.parent.mkdir(parents=True, exist_ok=True)
        with _alone(whole.parent):
            folder = self._folder(volume)
            store = _store(self._artifact)
            with ThreadPoolExecutor(_AT_ONCE) as several:
                fetching = [several.submit(self._fetch, store, each, folder) for each in self.files]
                try:
                    for each in fetching:
                        each.result()
                finally:
                    several.shutdown(cancel_futures=True)
            self._verify(folder)
            folder.rename(whole)

    def _folder(self, volume: Path) -> Path:
        whole = volume / self.path
        return whole if whole.is_dir() else self._unfinished(volume)

    def _unfinished(self, volume: Path) -> Path:
        return volume / f"{self.path}.incomplete"

    def _fetch(self, store: S3Store, wanted: File, folder: Path) -> None:
        path = file_below(folder, wanted.name, root=folder)
        if path.is_file() and path.stat().st_size == wanted.size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        key = _key(self._artifact.folder, wanted.name)
        piece = path.with_name(f"{path.name}.piece")
        with piece.open("ab") as file:
            while (begin := file.tell()) < wanted.size:
                file.write(self._asked(store, key, wanted, begin))
            file.flush()
            os.fsync(file.fileno())
        piece.replace(path)

    def _asked(self, store: S3Store, key: str, wanted: File, begin: int) -> bytes:
        end = min(begin + _PIECE, wanted.size)
        with _explained(self._artifact):
            answer = obstore.get(store, key, options={"range": (begin, end), "if_match": wanted.digest})
            content = bytes(answer.bytes())
        if len(content) != end - begin:
            raise DownloadError(Reason.FAILED, f"{self.name}: {wanted.name} is not as long as was listed")
        return content

    def _verify(self, folder: Path) -> None:
        names = {each.name for each in self.files}
        if CHECKSUMS not in names:
            return
        for line in (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines():
            digest, _, rest = line.partition(" ")
            name = rest.lstrip(" *").removeprefix("./")
            if name not in names:
                continue
            path = file_below(folder, name, root=folder)
            with path.open("rb") as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
            if found != digest.lower():
                path.unlink(missing_ok=True)
                what = f"{name} of {self.name} is not what its {CHECKSUMS} says; it is fetched again"
                raise DownloadError(Reason.CHECKSUM, f"{what}. If this stays, upload it anew")


def resolve(artifact: BucketArtifact) -> BucketSnapshot:
    """What the folder holds now.

    Raises:
        DownloadError: nothing, or something else than its revision says, or the store does not say.
    """
    uri = _uri(artifact)
    with _explained(artifact):
        listed = chain.from_iterable(obstore.list(_store(artifact), artifact.folder or None))
        entries = list(islice(listed, MAX_FILES + 1))
    if len(entries) > MAX_FILES:
        message = f"{uri} has more than {MAX_FILES} objects: correct the uri"
        raise DownloadError(Reason.FAILED, message)
    found = [
        File(name_below(artifact.folder, entry["path"]), entry["size"], entry["e_tag"])
        for entry in entries
        if entry["size"]  # Consoles mark a folder by an empty object of its name.
    ]
    left_out = unwanted(each.name for each in found)
    files = sorted((each for each in found if each.name not in left_out), key=lambda each: each.name)
    if not files:
        raise DownloadError(Reason.NOT_FOUND, f"{uri}: nothing lies there; correct the uri")
    snapshot = BucketSnapshot(artifact, files)
    if artifact.revision not in (None, snapshot.revision):
        message = f"{uri} has revision {snapshot.revision} now; correct the revision, or leave it out"
        raise DownloadError(Reason.NOT_FOUND, message)
    return snapshot


def _store(artifact: BucketArtifact) -> S3Store:
    """Keys, region and addressing are those of the environment, under AWS's names."""
    endpoint = artifact.endpoint or os.environ.get("AWS_ENDPOINT_URL") or ""
    own: S3Config = {"endpoint": endpoint_of(artifact.bucket, endpoint)} if endpoint else {}
    return S3Store(
        artifact.bucket,
        config=own,
        client_options={"timeout": _REQUEST_TIME, "allow_http": endpoint.startswith("http://")},
        retry_config={"max_retries": 5, "retry_timeout": _RETRY_TIME},
    )


def endpoint_of(bucket: str, endpoint: str) -> str:
    """With the bucket's name before the host's, where that was asked for: the library leaves it as it is."""
    if os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") != "true":
        return endpoint
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{bucket}.{host}"


@contextmanager
def _explained(artifact: BucketArtifact) -> Iterator[None]:
    """An error of the store in our words."""
    try:
        yield
    except (BaseError, ValueError, FileNotFoundError) as error:
        raise _in_our_words(error, artifact) from error


def _in_our_words(error: Exception, artifact: BucketArtifact) -> DownloadError:
    uri, text = _uri(artifact), str(error)
    code = "".join(re.findall(r"<Code>(\w+)</Code>", text)[:1])
    status = "".join(re.findall(r"status code: (\d+)", text)[:1])
    if isinstance(error, FileNotFoundError | PreconditionError):
        return DownloadError(Reason.FAILED, f"{uri} was changed while it came; it is listed anew")
    if code == "NoSuchBucket":
        return DownloadError(
            Reason.NOT_FOUND, f"{uri}: no such bucket; correct the uri, or spec.cache.s3.endpoint"
        )
    if status in ("401", "403"):
        return DownloadError(Reason.REFUSED, f"the store refuses {uri} ({code or status}): {_KEYS}")
    if code in _OTHER_REGION or status == "301":
        return DownloadError(Reason.FAILED, f"{uri} lies in another region: correct spec.cache.s3.region")
    if any(words in text for words in _NO_KEYS):
        return DownloadError(Reason.REFUSED, f"there are no keys for {uri}: {_KEYS}")
    first = " ".join(text.partition("Debug source:")[0].split())[:300]
    return DownloadError(Reason.FAILED, f"{uri}: {type(error).__name__}: {first}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One download into a folder at a time, as far as the volume can lock; the others find it done."""
    with (folder / ".lock").open("wb") as lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _uri(artifact: BucketArtifact) -> str:
    return f"s3://{_key(artifact.bucket, artifact.folder)}"


def _key(folder: str, name: str) -> str:
    return "/".join(part for part in (folder, name) if part)


def name_below(folder: str, key: str) -> str:
    """A key as the name of a file below the folder.

    Raises:
        DownloadError: it would lie elsewhere.
    """
    return plain_name(key.removeprefix(f"{folder}/") if folder else key, source="the object")


def _last_written(folder: Path) -> float:
    return max((entry.stat().st_mtime for entry in (folder, *folder.rglob("*"))), default=0.0)
