"""How SGLang ends with the plugin in it: it completes what it has, and ends when its scheduler dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.engine import Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.load import finish
from tests.contract.measuring import scrape, wait_until
from tests.contract.processes import pids
from tests.contract.sglang.engine import running_engine

pytestmark = [pytest.mark.contract, pytest.mark.nightly("starts")]

TOKENS, END_SECONDS = 300, 180.0
SCHEDULER = "sglang::scheduler"


@pytest.fixture
def ending(sglang_plugin: Path, tmp_path: Path) -> Iterator[Engine]:
    with running_engine(sglang_plugin, tmp_path) as engine:
        yield engine


def test_a_request_under_way_is_completed_after_sigterm(ending: Engine) -> None:
    ending.put(a_push(term=1, schedule=a_constant(3))).raise_for_status()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ending.complete, max_tokens=TOKENS)
        wait_until(lambda: scrape(ending).total("outrider:emitted_tokens_total") > 0, "no token was made")
        ending.process.send_signal(signal.SIGTERM)
        assert finish(answer.result()) == f"length of {TOKENS}"
    ending.process.wait(timeout=END_SECONDS)


def test_a_scheduler_that_dies_ends_the_container(ending: Engine) -> None:
    (scheduler,) = pids(ending, SCHEDULER)
    os.kill(scheduler, signal.SIGKILL)
    ending.process.wait(timeout=END_SECONDS)
    assert ending.process.returncode != 0
