"""Why an engine ends, left where Kubernetes reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider_engine.http.termination_message import (
    MAX_CHARACTERS,
    TERMINATION_LOG_VARIABLE,
    leave,
    listen,
    words_of,
)
from outrider_engine.vllm_adapter.processes import FATAL

CORE, WORKER = FATAL


@pytest.fixture
def termination_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(path))
    return path


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    before = {name: list(logging.getLogger(name).filters) for name in FATAL}
    listen(FATAL)
    yield
    for name, filters in before.items():
        logging.getLogger(name).filters = filters


def tell(logger: str, message: str, error: Exception) -> None:
    """As vLLM logs an error."""
    try:
        raise error
    except Exception:
        logging.getLogger(logger).exception(message)


@pytest.mark.parametrize(("logger", "message"), [(n, m) for n, messages in FATAL.items() for m in messages])
def test_an_error_that_ends_the_engine_is_left(logger: str, message: str, termination_log: Path) -> None:
    tell(logger, message, ValueError("No available memory\nfor the cache blocks."))
    assert termination_log.read_text() == "ValueError: No available memory for the cache blocks.\n"


def test_what_ends_a_worker_is_the_cause_and_what_the_core_says_of_it_is_not(termination_log: Path) -> None:
    tell(WORKER, FATAL[WORKER][0], MemoryError("no room for the weights"))
    tell(CORE, FATAL[CORE][0], RuntimeError("see the stack trace for the cause"))
    assert termination_log.read_text() == "MemoryError: no room for the weights\n"


def test_an_error_that_the_engine_survives_is_none_of_its_last_words(termination_log: Path) -> None:
    tell(CORE, "Invocation of outrider_run method failed", ValueError("x"))
    tell("vllm.entrypoints", FATAL[CORE][0], ValueError("x"))
    logging.getLogger(CORE).error(FATAL[CORE][0])
    assert termination_log.read_text() == ""


@pytest.mark.usefixtures("termination_log")
def test_the_log_of_vllm_keeps_every_line(caplog: pytest.LogCaptureFixture) -> None:
    tell(CORE, FATAL[CORE][0], ValueError("x"))
    assert FATAL[CORE][0] in caplog.text


def test_a_long_error_is_cut() -> None:
    words = words_of(ValueError("x" * 5000))
    assert len(words) == MAX_CHARACTERS
    assert words.endswith("x…")


def test_where_kubernetes_made_no_file_none_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(path))
    leave("words")
    assert not path.exists()
