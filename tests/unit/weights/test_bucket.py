"""Weights in a bucket: the real client against a real server of the S3 protocol, which checks signatures."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outrider_weights import bucket
from outrider_weights.__main__ import bring
from outrider_weights.bucket import endpoint_of, name_below, resolve
from outrider_weights.failure import DownloadError, Reason
from outrider_weights.wanted import BucketArtifact, Wanted
from tests.unit.weights.s3 import Server, a_server

CONFIG = json.dumps({"vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 2}).encode()
TARGET = {"config.json": CONFIG, "model.safetensors": b"w" * 1000, "model.bin": b"the same again"}
LARGE = os.urandom(1 << 20) * 20
"""Two pieces."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server("127.0.0.1") as server:
        yield server


@pytest.fixture
def place(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A fresh volume, and a folder of the bucket that is this test's own."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "volume").mkdir()
    place = Place(server, tmp_path / "volume", f"{tmp_path.name}-{time.time_ns()}")
    server.stall()
    return place


@dataclass(frozen=True)
class Place:
    server: Server
    volume: Path
    folder: str

    def put(self, objects: Mapping[str, bytes]) -> None:
        self.server.put(self.folder, objects)

    def artifact(self, **what: Any) -> BucketArtifact:
        told = {"folder": self.folder, "revision": None, "endpoint": self.server.url, **what}
        return BucketArtifact("model", told.pop("bucket", "models"), **told)

    def bring(self, **what: Any) -> Any:
        wanted = Wanted(self.volume, False, (self.artifact(**what),))
        return bring(wanted, port=0)["model"]

    def refused(self, **what: Any) -> DownloadError:
        with pytest.raises(DownloadError) as refused:
            self.bring(**what)
        return refused.value

    def files(self) -> set[str]:
        return {path.name for path in self.volume.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_folder_of_a_bucket_comes_without_weights_in_a_second_form(place: Place) -> None:
    place.put(TARGET)
    told = place.bring()
    folder = place.volume / told["path"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: TARGET[name] for name in ("config.json", "model.safetensors")
    }
    assert (told["bytes"], told["hiddenSize"]) == (len(CONFIG) + 1000, 8)


def test_folders_in_the_folder_come_too_and_those_beside_it_do_not(place: Place) -> None:
    place.put({"1_Pooling/config.json": b"{}"})
    place.server.put(f"{place.folder}-other", {"secret.json": b"{}"})
    told = place.bring()
    assert (place.volume / told["path"] / "1_Pooling" / "config.json").read_bytes() == b"{}"
    assert place.files() == {"config.json"}


def test_what_is_there_is_not_read_again(place: Place) -> None:
    place.put(TARGET)
    first = place.bring()
    place.server.stall()
    assert place.bring() == first
    assert place.server.asked() == []


def test_other_objects_are_another_revision_in_another_folder(place: Place) -> None:
    place.put(TARGET)
    before = place.bring()
    place.put({"model.safetensors": b"v" * 1000})
    after = place.bring()
    assert after["revision"] != before["revision"]
    assert (place.volume / before["path"] / "model.safetensors").read_bytes() == b"w" * 1000
    assert (place.volume / after["path"] / "model.safetensors").read_bytes() == b"v" * 1000


def test_a_revision_of_the_spec_takes_no_other_objects(place: Place) -> None:
    place.put(TARGET)
    revision = place.bring()["revision"]
    assert place.bring(revision=revision)["revision"] == revision
    place.put({"model.safetensors": b"v" * 1000})
    refused = place.refused(revision=revision)
    assert refused.reason is Reason.NOT_FOUND
    assert "correct the revision" in refused.message


def test_a_killed_download_resumes_in_the_middle_of_a_file(place: Place) -> None:
    place.put({"config.json": CONFIG, "model.safetensors": LARGE})
    place.server.stall("model.safetensors")
    artifact = place.artifact()
    wanted = {
        "folder": str(place.volume),
        "shared": False,
        "artifacts": [
            {"role": "model", "bucket": "models", "folder": artifact.folder, "endpoint": artifact.endpoint}
        ],
    }
    environment = {**os.environ, "OUTRIDER_WEIGHTS": json.dumps(wanted)}
    environment["OUTRIDER_TERMINATION_LOG"] = str(place.volume.parent / "end")
    command = [sys.executable, "-m", "outrider_weights"]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    wait_until(lambda: len([name for name, _ in place.server.asked() if name.startswith("model")]) == 2)
    first.kill()
    first.wait()
    place.server.stall()
    told = place.bring()

    assert (place.volume / told["path"] / "model.safetensors").read_bytes() == LARGE
    assert place.server.asked() == [["model.safetensors", f"bytes={16 << 20}-{len(LARGE) - 1}"]]
    assert place.files() == {"config.json", "model.safetensors"}


def test_pieces_of_objects_that_were_changed_are_removed(place: Place) -> None:
    place.put(TARGET)
    left = place.volume / "s3/models" / place.folder / "0123.incomplete"
    left.mkdir(parents=True)
    (left / "model.safetensors.piece").write_bytes(b"old")
    place.bring()
    assert not left.exists()


def test_checksums_beside_the_weights_are_held(place: Place) -> None:
    digest = hashlib.sha256(TARGET["model.safetensors"]).hexdigest()
    place.put({**TARGET, "SHA256SUMS": f"{digest}  model.safetensors\n".encode()})
    damaged = place.volume / place.bring()["path"] / "model.safetensors"
    damaged.write_bytes(b"x" * 1000)

    refused = place.refused()
    assert refused.reason is Reason.CHECKSUM
    assert "model.safetensors" in refused.message
    place.bring()
    assert damaged.read_bytes() == TARGET["model.safetensors"]


def test_nothing_is_not_found(place: Place) -> None:
    refused = place.refused()
    assert refused.reason is Reason.NOT_FOUND
    assert f"s3://models/{place.folder}" in refused.message


def test_a_bucket_that_there_is_not_is_not_found(place: Place) -> None:
    refused = place.refused(bucket="nowhere")
    assert refused.reason is Reason.NOT_FOUND
    assert "no such bucket" in refused.message


def test_wrong_keys_are_refused_and_in_no_message(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put(TARGET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    refused = place.refused()
    assert refused.reason is Reason.REFUSED
    assert "spec.cache.s3.secret" in refused.message
    assert "wrong-secret" not in refused.message


def test_missing_keys_are_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    assert place.refused().reason is Reason.REFUSED


def test_an_unreachable_store_is_reported_with_its_cause(place: Place) -> None:
    refused = place.refused(endpoint="http://127.0.0.1:9")
    assert refused.reason is Reason.FAILED
    assert place.folder in refused.message


def test_a_bucket_stands_before_the_host_where_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint_of("models", "https://store:9000") == "https://store:9000"
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    assert endpoint_of("models", "https://store:9000") == "https://models.store:9000"


def test_a_link_in_the_folder_leads_no_object_out_of_it(place: Place) -> None:
    place.put({"sub/a.safetensors": b"theirs"})
    victim = place.volume / "victim"
    victim.mkdir()
    (victim / "a.safetensors").write_bytes(b"weights of somebody else")
    snapshot = resolve(place.artifact())
    folder = place.volume / f"{snapshot.path}.incomplete"
    folder.mkdir(parents=True)
    (folder / "sub").symlink_to(victim)

    with pytest.raises(DownloadError, match="leads outside"):
        snapshot.bring(place.volume)
    assert [each.name for each in victim.iterdir()] == ["a.safetensors"]
    assert (victim / "a.safetensors").read_bytes() == b"weights of somebody else"


def test_a_bucket_of_too_many_objects_is_not_listed_to_its_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "MAX_FILES", 2)
    place.put({"a": b"1", "b": b"2", "c": b"3"})

    with pytest.raises(DownloadError, match="more than 2 objects"):
        resolve(place.artifact())


@pytest.mark.parametrize("key", ["models/../../x", "models//etc/x", "models/./x"])
def test_a_key_cannot_leave_the_folder(key: str) -> None:
    with pytest.raises(DownloadError, match="rename it"):
        name_below("models", key)


def test_markers_of_folders_are_no_files(place: Place) -> None:
    place.put({"1_Pooling": b"", "1_Pooling/config.json": b"{}"})
    told = place.bring()
    assert (place.volume / told["path"] / "1_Pooling" / "config.json").read_bytes() == b"{}"


def wait_until(true: Any) -> None:
    limit = time.monotonic() + 120
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.02)
