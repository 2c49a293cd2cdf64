"""Suffix decoding needs a package that vLLM does not bring; an image without it says so as it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import engine_process
from tests.contract.engine import MODELS, environment, launcher, server_flags
from tests.contract.last_words import kept, what_outrider_says

pytestmark = pytest.mark.contract


def test_without_arctic_inference_the_condition_says_what_to_install(plugin: Path) -> None:
    flags = server_flags(target=MODELS / "target", speculation={"method": "suffix"}, port=1, candidates=(3,))
    ended = engine_process.run(launcher(flags), environment(plugin), timeout=300)
    said = what_outrider_says(kept(ended.returncode, b"", ended.log.encode()))
    assert "ImportError" in said
    assert "pip install arctic-inference" in said
