"""What a log line looks like, for programs and for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from outrider.controller.process import set_up_logs
from outrider.controller.settings import LogFormat


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """The handlers of the tests' own logger come back."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_line_is_an_object_of_time_severity_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(LogFormat.JSON, "INFO")
    logging.getLogger("outrider.a").info("leading, term %d", 7)
    line = json.loads(capsys.readouterr().err)

    assert line.pop("time")
    assert line == {"severity": "INFO", "logger": "outrider.a", "message": "leading, term 7"}


def test_an_exception_stays_within_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(LogFormat.JSON, "INFO")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("outrider.a").exception("a tick failed")
    (line,) = capsys.readouterr().err.splitlines()

    assert "ValueError: two\nlines" in json.loads(line)["exc_info"]


def test_people_get_text_of_the_level_that_they_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(LogFormat.TEXT, "WARNING")
    logging.getLogger("outrider.a").info("not asked for")
    logging.getLogger("outrider.a").warning("leadership lost")

    assert capsys.readouterr().err.endswith("WARNING outrider.a: leadership lost\n")


def test_libraries_do_not_tell_of_each_request(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(LogFormat.JSON, "INFO")
    for name in ("httpx", "urllib3"):
        logging.getLogger(name).info("GET /")

    assert capsys.readouterr().err == ""
