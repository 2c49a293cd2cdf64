"""The comparison of an engine with its stand-in."""

from __future__ import annotations

import pytest

from outrider_twin.settings import Settings
from tests.bench.twin.cells import Cell, Pair, description, text_of, verdict
from tests.unit.twin.factories import a_load


def a_cell(streams: int = 1, k: int = 0, *, rate: float = 100.0, accepted: float = 0.0) -> Cell:
    steps = 10 * rate / (1 + accepted) / streams
    return Cell(streams, k, tokens=10 * rate, steps=steps, engine_seconds=10.0, accepted=accepted)


CELLS = [
    a_cell(
        streams, k, rate=streams * (100 + 10 * k), accepted={0: 0.0, 2: 1.2, 5: 1.8}[k] * (1 - streams / 100)
    )
    for streams in (1, 4, 16)
    for k in (0, 2, 5)
]


def test_the_stand_in_has_the_throughputs_and_the_acceptance_that_were_measured() -> None:
    engine = Settings.model_validate({"engine": description(CELLS, kv_tokens=1000)}).engine
    timing = engine.timing(drafter=True)
    for cell in CELLS:
        curve = engine.curves()[text_of(cell.streams)]
        assert curve.gain(cell.k) == pytest.approx(1 + cell.accepted)
        rate = cell.streams * curve.gain(cell.k) / timing.seconds(a_load(k=cell.k, batch=cell.streams))
        assert rate == pytest.approx(cell.tokens_per_second)


@pytest.mark.parametrize(
    ("rate", "late", "found"),
    [(102.0, 0.001, "passed"), (98.0, 0.001, "passed"), (104.0, 0.001, "failed"), (104.0, 0.02, "void")],
)
def test_a_verdict_needs_a_machine_that_had_time(rate: float, late: float, found: str) -> None:
    pairs = [Pair(a_cell(), a_cell(rate=100.0), 0.0), Pair(a_cell(), a_cell(rate=rate), late)]
    assert verdict(pairs, largest_error=0.03) == found
