"""CONTRIBUTING.md lists where a change goes: its files exist, and a missing entry is named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from outrider.controller.settings import MetricsSourceKind, Settings
from outrider.controller.tune.metrics_source import open_source
from outrider.runtimes.vllm.methods import ENGINE_METHODS
from outrider.transport import PodHttp
from outrider_protocol.methods import TRAITS, Method
from tests.unit.tuning_loop.factories import World

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`([a-z_]+/[\w./-]+)`", PAGE)))
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"`([a-z_]+/[\w./-]+)`", ARCHITECTURE)))
REGISTRIES: Mapping[str, Mapping[Method, object]] = {
    "engine_image/protocol/outrider_protocol/methods.py: TRAITS": TRAITS,
    "operator/outrider/runtimes/vllm/methods.py: ENGINE_METHODS": ENGINE_METHODS,
}


def test_the_page_names_files() -> None:
    assert len(PATHS) > 20


@pytest.mark.parametrize("path", FILES)
def test_every_file_that_answers_which_file_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "operator/outrider" / path).exists()


@pytest.mark.parametrize("path", PATHS)
def test_every_file_that_the_page_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("place", REGISTRIES)
@pytest.mark.parametrize("method", Method)
def test_every_method_is_in_each_registry(method: Method, place: str) -> None:
    assert method in REGISTRIES[place], f"add {method} to {place}"


def test_a_method_is_named_in_three_files() -> None:
    """Those of the page. Only methods with a speciality are named elsewhere."""
    command = ["git", "grep", "-liw", "medusa", "--", "*.py", "*.toml", ":!tests", ":!engine_image/testing"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    assert found == [
        "engine_image/protocol/outrider_protocol/methods.py",
        "engine_image/protocol/outrider_protocol/versions.toml",
        "operator/outrider/runtimes/vllm/methods.py",
    ]


@pytest.mark.parametrize("kind", MetricsSourceKind)
async def test_every_metrics_source_of_the_settings_can_be_opened(kind: MetricsSourceKind) -> None:
    missing = f"add {kind} to operator/outrider/controller/tune/metrics_source.py: open_source"
    opened = False
    try:
        async with open_source(Settings(metrics_source=kind), World(), PodHttp()):
            opened = True
    except RuntimeError:
        assert opened, missing
        raise
