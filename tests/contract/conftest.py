"""One engine of each kind for the whole session; every test pushes under a term of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.contract.engine import MODELS, NGRAM, PYTHON, Engine, Launch, install_plugin, running_engine
from tests.contract.twin import install_twin

_terms = count(1)


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the installed plugin."""
    if not PYTHON.exists():
        pytest.fail(f"no vLLM environment at {PYTHON}: run `make test` once, it makes one", pytrace=False)
    return install_plugin(tmp_path_factory.mktemp("plugin"))


@pytest.fixture(scope="session")
def twin(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the installed stand-in. The plugin tells first whether there is a vLLM."""
    del plugin
    return install_twin(tmp_path_factory.mktemp("twin"))


@pytest.fixture(scope="session")
def engine(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running engine with the tiny models."""
    if not (MODELS / "target").is_dir():
        pytest.fail(f"no tiny models at {MODELS}: run `make test` once, it makes them", pytrace=False)
    with running_engine(plugin, tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="session")
def ngram_engine(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running engine that drafts by looking up the request's own text."""
    launch = Launch(speculation=NGRAM, candidates=(0, 2, 4))
    with running_engine(plugin, tmp_path_factory.mktemp("ngram"), launch) as engine:
        yield engine


@pytest.fixture
def term() -> int:
    """A term above that of every test before."""
    return next(_terms)
