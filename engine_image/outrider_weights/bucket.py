"""Objects of a bucket that speaks S3, as files in a folder whose name changes with any of them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
    MOST_FILES,
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
_READ = 1 << 20
_LONGEST_NAME = 100
_KEYS = (
    "give spec.cache.s3.secret keys that may list and read it, or the pods' service account such an identity"
)
_OTHER_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_NO_KEYS = ("/latest/api/token", "instance metadata")
"""Words in errors of the last place where the library looks for keys."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object. name: below the folder."""

    name: str
    size: int
    etag: str | None


@dataclass(frozen=True, slots=True)
class BucketSnapshot:
    """What lay in a folder when it was listed, without what no engine loads."""

    artifact: BucketArtifact
    objects: tuple[Object, ...]

    @property
    def role(self) -> str:
        """Role of the artifact."""
        return self.artifact.role

    @property
    def name(self) -> str:
        """Its URI."""
        return _uri(self.artifact)

    @property
    def revision(self) -> str:
        """Digest of the names, sizes and ETags of all objects."""
        told = json.dumps([[each.name, each.size, each.etag] for each in self.objects])
        return hashlib.sha256(told.encode()).hexdigest()[:40]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(each.size for each in self.objects)

    @property
    def path(self) -> str:
        """Where the engine finds it, from the root of the volume."""
        last = self.artifact.folder.rpartition("/")[2][:_LONGEST_NAME]
        return f"{CACHE}/{self.artifact.bucket}/{last or 'root'}/{self.revision}"

    def sweep(self, volume: Path, *, shared: bool) -> None:
        """Folders of other objects that no download finished: the objects were changed meanwhile."""
        whole = volume / self.path
        oldest = time.time() - ABANDONED_SECONDS
        for folder in whole.parent.glob("*.incomplete"):
            if folder != self._unfinished(volume) and (not shared or _last_written(folder) < oldest):
                shutil.rmtree(folder, ignore_errors=True)

    def on_disk(self, volume: Path) -> int:
        """Bytes of these objects that are there, pieces included."""
        folder = self._folder(volume)
        done = 0
        for entry in folder.rglob("*") if folder.is_dir() else ():
            try:
                done += entry.stat().st_size if entry.is_file() else 0
            except FileNotFoundError:  # Renamed meanwhile.
                continue
        return min(done, self.size)

    def bring(self, volume: Path) -> None:
        """Every object is asked for at the ETag that was listed; a piece continues where it ended.

        The folder gets its name when all is there and agrees with `CHECKSUMS`, where there is one.

        Raises:
            DownloadError, OSError: the store's or the volume's.
        """
        whole = volume / self.path
        whole.parent.mkdir(parents=True, exist_ok=True)
        with _alone(whole.parent):
            folder = self._folder(volume)
            store = _store(self.artifact)
            with ThreadPoolExecutor(_AT_ONCE) as several:
                fetching = [several.submit(self._fetch, store, each, folder) for each in self.objects]
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

    def _fetch(self, store: S3Store, wanted: Object, folder: Path) -> None:
        path = file_below(folder, wanted.name, root=folder)
        if path.is_file() and path.stat().st_size == wanted.size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        key = _key(self.artifact.folder, wanted.name)
        piece = path.with_name(f"{path.name}.piece")
        with piece.open("ab") as file:
            while (begin := file.tell()) < wanted.size:
                file.write(self._asked(store, key, wanted, begin))
            file.flush()
            os.fsync(file.fileno())
        piece.replace(path)

    def _asked(self, store: S3Store, key: str, wanted: Object, begin: int) -> bytes:
        end = min(begin + _PIECE, wanted.size)
        with _explained(self.artifact):
            answer = obstore.get(store, key, options={"range": (begin, end), "if_match": wanted.etag})
            content = bytes(answer.bytes())
        if len(content) != end - begin:
            raise DownloadError(Reason.FAILED, f"{self.name}: {wanted.name} is not as long as was listed")
        return content

    def _verify(self, folder: Path) -> None:
        for name, digest in self._checksums(folder):
            path = file_below(folder, name, root=folder)
            if _sha256(path) != digest:
                path.unlink(missing_ok=True)
                told = f"{name} of {self.name} is not what its {CHECKSUMS} says; it is fetched again"
                raise DownloadError(Reason.CHECKSUM, f"{told}. If this stays, upload it anew")

    def _checksums(self, folder: Path) -> Iterator[tuple[str, str]]:
        names = {each.name for each in self.objects}
        if CHECKSUMS not in names:
            return
        for line in (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines():
            digest, _, rest = line.partition(" ")
            name = rest.lstrip(" *").removeprefix("./")
            if name in names:
                yield name, digest.lower()


def resolve(artifact: BucketArtifact) -> BucketSnapshot:
    """What the folder holds now.

    Raises:
        DownloadError: nothing, or something else than its revision says, or the store does not say.
    """
    uri = _uri(artifact)
    with _explained(artifact):
        listed = chain.from_iterable(obstore.list(_store(artifact), artifact.folder or None))
        entries = list(islice(listed, MOST_FILES + 1))
    if len(entries) > MOST_FILES:
        told = f"{uri} has more than {MOST_FILES} objects: correct the uri"
        raise DownloadError(Reason.FAILED, told)
    found = [
        Object(name_below(artifact.folder, entry["path"]), entry["size"], entry["e_tag"])
        for entry in entries
        if entry["size"]  # Consoles mark a folder by an empty object of its name.
    ]
    left_out = unwanted(each.name for each in found)
    objects = tuple(sorted((each for each in found if each.name not in left_out), key=lambda each: each.name))
    if not objects:
        raise DownloadError(Reason.NOT_FOUND, f"{uri}: nothing lies there; correct the uri")
    snapshot = BucketSnapshot(artifact, objects)
    if artifact.revision not in (None, snapshot.revision):
        told = f"{uri} has revision {snapshot.revision} now; correct the revision, or leave it out"
        raise DownloadError(Reason.NOT_FOUND, told)
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
    except FileNotFoundError as error:
        message = f"{_uri(artifact)} was changed while it came; it is listed anew"
        raise DownloadError(Reason.FAILED, message) from error
    except (BaseError, ValueError) as error:
        raise _in_our_words(error, artifact) from error


def _in_our_words(error: Exception, artifact: BucketArtifact) -> DownloadError:
    uri, told = _uri(artifact), str(error)
    code = _found(r"<Code>(\w+)</Code>", told)
    status = _found(r"status code: (\d+)", told)
    if isinstance(error, PreconditionError):
        return DownloadError(Reason.FAILED, f"{uri} was changed while it came; it is listed anew")
    if code == "NoSuchBucket":
        return DownloadError(
            Reason.NOT_FOUND, f"{uri}: no such bucket; correct the uri, or spec.cache.s3.endpoint"
        )
    if status in ("401", "403"):
        return DownloadError(Reason.REFUSED, f"the store refuses {uri} ({code or status}): {_KEYS}")
    if code in _OTHER_REGION or status == "301":
        return DownloadError(Reason.FAILED, f"{uri} lies in another region: correct spec.cache.s3.region")
    if any(words in told for words in _NO_KEYS):
        return DownloadError(Reason.REFUSED, f"there are no keys for {uri}: {_KEYS}")
    first = " ".join(told.partition("Debug source:")[0].split())[:300]
    return DownloadError(Reason.FAILED, f"{uri}: {type(error).__name__}: {first}")


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return None if match is None else match[1]


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


def _sha256(path: Path) -> str:
    state = hashlib.sha256()
    with path.open("rb") as content:
        while piece := content.read(_READ):
            state.update(piece)
    return state.hexdigest()
