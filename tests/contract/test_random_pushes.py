"""Thousands of requests to the control API, good and bad mixed, on a busy simulated engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.engine import Engine, running_engine
from tests.contract.random_pushes import assert_every_answer_is_the_contracts
from tests.contract.twin import twin_launch

pytestmark = pytest.mark.contract

BATCHES = 50

TIME_FACTOR = 0.6
"""Steps of four milliseconds and more: a push waits for the end of one, and shorter ones would take the whole
machine."""


@pytest.fixture(scope="module")
def engine(plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A stand-in, since no tensor matters and thousands of answers are waited for."""
    launch = twin_launch(plugin, twin, settings={"engine": "h100_8b", "time_factor": TIME_FACTOR})
    with running_engine(plugin, tmp_path_factory.mktemp("pushed"), launch) as engine:
        yield engine


def test_every_answer_is_the_contracts_and_no_request_suffers(engine: Engine, term: int) -> None:
    assert_every_answer_is_the_contracts(engine, term, batches=BATCHES)
