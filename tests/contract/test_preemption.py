"""Where the drafter is left out, requests may give way to each other, join late and end early.

The scheduler's messages to the drafter cross to another process here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from tests.contract import quick_start
from tests.contract.engine import OWN_WORKER, SERVED_NAME, Engine, Launch, completion_body, running_engine
from tests.contract.factories import a_constant, a_push
from tests.contract.load import WHOLE, busy
from tests.contract.measuring import scrape, wait_until

pytestmark = pytest.mark.contract

CAUGHT_UP = "outrider:drafter_tokens_caught_up_total"
FAILURES = "outrider:hook_failures_total"
PREEMPTIONS = "vllm:num_preemptions_total"


@pytest.fixture(scope="module")
def cramped(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """So few blocks of KV cache that requests have to give way to each other."""
    flags = ("--block-size", "32", "--num-gpu-blocks-override", "17")
    launch = Launch(flags=flags, plugins=(quick_start.NAME,), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path_factory.mktemp("cramped"), launch) as engine:
        yield engine


def test_aborts_prompts_that_join_and_preemption_do_no_harm(cramped: Engine, term: int) -> None:
    before = scrape(cramped)
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool, busy(cramped, streams=6) as ends:
        aborting = pool.submit(abort_again_and_again, cramped, stop)
        for epoch, k in enumerate(cycle([0, 3, 0, 5]), start=1):
            cramped.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
            seen, so_far = scrape(cramped) - before, len(ends)
            if seen.total(PREEMPTIONS) > 2 and seen.total(CAUGHT_UP) > 0 and so_far > 20:
                break
            wait_until(lambda n=so_far: len(ends) > n, "no request ends", seconds=300)  # type: ignore[misc]
        stop.set()
        assert aborting.result() > 0
    assert set(ends) == {WHOLE}
    assert (scrape(cramped) - before).total(FAILURES) == 0
    assert "cannot be skipped or catch up" not in cramped.log_file.read_text()


def abort_again_and_again(engine: Engine, stop: threading.Event) -> int:
    """Requests whose client goes away after the first words; how many."""
    aborted = 0
    while not stop.is_set():
        body = completion_body(400, f"def aborted{aborted}(x):\n    ", stream=True) | {"model": SERVED_NAME}
        with (
            engine.client() as client,
            client.stream("POST", "/v1/completions", json=body, timeout=httpx.Timeout(120)) as response,
        ):
            next(response.iter_lines())
        aborted += 1
    return aborted
