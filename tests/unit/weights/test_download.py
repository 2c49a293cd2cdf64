"""The program of the download Job, with the real huggingface_hub, against a hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub import HfApi

from outrider_weights import hub as listing
from outrider_weights.failure import DownloadError
from outrider_weights.wanted import Artifact
from tests.ports import free_port
from tests.unit.weights.fake_hub import COMMIT, Hub, a_hub

CONFIG = json.dumps({"vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 2}).encode()
TARGET = {
    "config.json": CONFIG,
    "model-1.safetensors": b"first" * 1000,
    "model-2.safetensors": b"second" * 1000,
    "model.bin": b"the same again",
}
DRAFTER = {"config.json": json.dumps({"vocab_size": 32}).encode(), "model.safetensors": b"small" * 10}
REPOSITORIES = {"org/target": TARGET, "org/drafter": DRAFTER}
NAMES = [{"role": "model", "repository": "org/target", "revision": "main"}]
BOTH = [*NAMES, {"role": "drafter", "repository": "org/drafter"}]


@dataclass
class Volume:
    """A Job's pod as far as the program sees it."""

    folder: Path

    def environment(self, hub: Hub, artifacts: list[dict[str, str]], **more: str) -> dict[str, str]:
        wanted = {"folder": str(self.folder), "shared": False, "artifacts": artifacts}
        own = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(self.folder.parent / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "OUTRIDER_WEIGHTS": json.dumps(wanted),
            "OUTRIDER_TERMINATION_LOG": str(self.end),
        }
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        return {**inherited, **own, **more}

    def run(self, hub: Hub, artifacts: list[dict[str, str]], **more: str) -> tuple[int, Any]:
        """Exit code and last words."""
        self.end.unlink(missing_ok=True)
        done = subprocess.run(
            COMMAND, env=self.environment(hub, artifacts, **more), capture_output=True, text=True, timeout=120
        )
        assert self.end.exists(), done.stderr
        return done.returncode, json.loads(self.end.read_text())

    @property
    def end(self) -> Path:
        return self.folder.parent / "termination-log"


COMMAND = [sys.executable, "-m", "outrider_weights"]


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    (tmp_path / "volume").mkdir()
    return Volume(tmp_path / "volume")


def test_target_and_drafter_come_at_the_commit_that_the_revision_names(volume: Volume) -> None:
    with a_hub(Hub(REPOSITORIES)) as hub:
        code, told = volume.run(hub, BOTH)

    assert code == 0
    model, drafter = told["weights"]["model"], told["weights"]["drafter"]
    assert model["revision"] == drafter["revision"] == COMMIT
    assert (volume.folder / model["path"] / "model-1.safetensors").read_bytes() == TARGET[
        "model-1.safetensors"
    ]
    assert (model["vocabularySize"], model["hiddenSize"], model["layers"]) == (64, 8, 2)
    assert drafter["vocabularySize"] == 32


def test_weights_in_a_second_form_are_not_brought(volume: Volume) -> None:
    with a_hub(Hub(REPOSITORIES)) as hub:
        _, told = volume.run(hub, NAMES)

    assert "model.bin" not in hub.sent
    assert told["weights"]["model"]["bytes"] == sum(len(TARGET[name]) for name in set(TARGET) - {"model.bin"})


def test_a_killed_download_resumes_with_the_missing_files_and_leaves_no_pieces(volume: Volume) -> None:
    with a_hub(Hub(REPOSITORIES, stalled={"model-2.safetensors"})) as hub:
        first = subprocess.Popen(COMMAND, env=volume.environment(hub, NAMES), stderr=subprocess.DEVNULL)
        assert hub.waiting.wait(120)
        snapshot = volume.folder / "hub/models--org--target/snapshots" / COMMIT
        for whole in ("config.json", "model-1.safetensors"):
            wait_for(snapshot / whole)
        first.kill()
        first.wait()
        hub.sent.clear()
        hub.stalled.clear()
        hub.released.set()
        code, _ = volume.run(hub, NAMES)

    assert code == 0
    assert hub.sent == ["model-2.safetensors"]
    assert not list(volume.folder.rglob("*.incomplete"))


def test_it_reports_its_progress(volume: Volume) -> None:
    port = free_port()
    with a_hub(Hub(REPOSITORIES, stalled={"model-2.safetensors"})) as hub:
        environment = volume.environment(hub, NAMES, OUTRIDER_WEIGHTS_PORT=str(port))
        running = subprocess.Popen(COMMAND, env=environment, stderr=subprocess.DEVNULL)
        assert hub.waiting.wait(120)
        told = httpx.get(f"http://127.0.0.1:{port}/progress").json()
        running.kill()
        running.wait()

    assert told["total"] == sum(len(TARGET[name]) for name in set(TARGET) - {"model.bin"})
    assert 0 <= told["done"] < told["total"]


def test_a_file_with_other_bytes_is_a_checksum_mismatch_and_is_fetched_again(volume: Volume) -> None:
    with a_hub(Hub(REPOSITORIES, damaged={"model-1.safetensors"})) as hub:
        code, told = volume.run(hub, NAMES)
        hub.damaged.clear()
        again, _ = volume.run(hub, NAMES)

    assert (code, told["reason"]) == (1, "ChecksumMismatch")
    assert "model-1.safetensors" in told["message"]
    assert again == 0


@pytest.mark.parametrize(
    ("artifact", "message"),
    [
        ({"repository": "org/nothing"}, "no such repository"),
        ({"repository": "org/target", "revision": "v9"}, "no such revision"),
    ],
    ids=["repository", "revision"],
)
def test_what_the_hub_does_not_have_is_not_found(
    volume: Volume, artifact: dict[str, str], message: str
) -> None:
    with a_hub(Hub(REPOSITORIES)) as hub:
        code, told = volume.run(hub, [{"role": "model", **artifact}])

    assert (code, told["reason"]) == (1, "WeightsNotFound")
    assert message in told["message"]


@pytest.mark.parametrize("name", ["../../../models--victim--m/blobs/w", "/etc/x", "a/../../../../x"])
def test_a_hub_that_lists_names_outside_of_the_repository_brings_nothing(volume: Volume, name: str) -> None:
    with a_hub(Hub({**REPOSITORIES, "org/target": {**TARGET, name: b"x"}})) as hub:
        code, told = volume.run(hub, NAMES)

    assert code == 1
    assert told["reason"] == "DownloadFailed"
    assert "rename it" in told["message"]
    assert hub.sent == []


@pytest.mark.parametrize("commit", ["../../x", "c" * 41, "main"])
def test_a_commit_that_is_none_names_no_folder(volume: Volume, commit: str) -> None:
    with a_hub(Hub(REPOSITORIES, revisions={"main": commit, commit: commit})) as hub:
        code, told = volume.run(hub, NAMES)

    assert code == 1
    assert "names no commit" in told["message"]
    assert hub.sent == []


def test_a_repository_of_too_many_files_is_not_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_FILES", 2)
    with a_hub(Hub(REPOSITORIES)) as hub:
        monkeypatch.setattr(listing, "HfApi", lambda: HfApi(endpoint=hub.url))
        with pytest.raises(DownloadError, match="more than 2 files"):
            listing.resolve(Artifact("model", "org/target", "main"))


def test_a_token_opens_what_is_private_and_is_in_no_message(volume: Volume) -> None:
    with a_hub(Hub(REPOSITORIES, token="hf_right")) as hub:
        refused, told = volume.run(hub, NAMES, HF_TOKEN="hf_wrong")
        admitted, _ = volume.run(hub, NAMES, HF_TOKEN="hf_right")

    assert refused == 1
    assert told["reason"] in ("WeightsRefused", "WeightsNotFound")
    assert "spec.model.secretRef" in told["message"]
    assert "hf_wrong" not in json.dumps(told)
    assert admitted == 0


def test_an_unreachable_hub_is_reported_with_its_cause(volume: Volume) -> None:
    code, told = volume.run(Hub({}, url="http://127.0.0.1:9"), NAMES)
    assert (code, told["reason"]) == (1, "DownloadFailed")
    assert "hf://org/target" in told["message"]


def test_a_request_of_another_operator_is_reported(volume: Volume) -> None:
    code, told = volume.run(Hub({}), NAMES, OUTRIDER_WEIGHTS='{"folder": "/x"}')
    assert (code, told["reason"]) == (1, "DownloadFailed")
    assert "different versions" in told["message"]


def wait_for(path: Path) -> None:
    limit = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < limit, f"{path} did not come"
        time.sleep(0.02)
