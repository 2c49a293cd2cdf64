"""One SGLang for a file. Every test pushes under a term of its own (`tests/contract/conftest.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.engine import Engine
from tests.contract.engine_process import PYTHON, SGLANG
from tests.contract.sglang.engine import install_plugin, running_engine


@pytest.fixture(scope="session")
def sglang_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the installed plugin and the replacement of SGLang's kernels."""
    if not PYTHON.exists() or not SGLANG.is_dir():
        pytest.fail(f"no SGLang environment at {SGLANG}: run `make test` once, it makes one", pytrace=False)
    return install_plugin(tmp_path_factory.mktemp("sglang-plugin"))


@pytest.fixture(scope="module")
def sglang(sglang_plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running SGLang with the tiny models, tuned live."""
    with running_engine(sglang_plugin, tmp_path_factory.mktemp("sglang")) as engine:
        yield engine
