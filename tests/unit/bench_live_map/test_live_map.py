"""What the bench of the map says of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.bench.live_map import Place, result
from tests.gpu.verdicts import Cell

MAP = [Cell(batch, k, context, 0.01 * batch) for batch in (1, 8) for k in (0, 3) for context in (32.0, 512.0)]


def lived(*factors: float, k: int = 0) -> Mapping[Place, Sequence[Cell]]:
    """At each batch size of the map, a round for each factor of the map's time."""
    return {(batch, k): [Cell(batch, k, 100.0, 0.01 * batch * by) for by in factors] for batch in (1, 8)}


def test_a_common_scale_is_separate_from_the_error() -> None:
    found = result(MAP, lived(1.25, 1.25))
    assert found["scale_percent"] == found["interval_95_percent"][0] * -1 == -20.0  # type: ignore[index]
    assert found["mean_error_percent"] == 20.0
    assert found["mean_error_beyond_scale_percent"] == found["scatter_percent"] == 0.0


def test_a_round_that_lies_apart_moves_the_interval_and_not_the_error() -> None:
    found = result(MAP, lived(1.0, 1.0, 1.5))
    assert found["mean_error_percent"] == 0.0
    assert found["scatter_percent"] == pytest.approx(100 / 6, abs=0.01)


def test_a_place_beyond_the_map_is_left_out() -> None:
    beyond = {(32, 0): [Cell(32, 0, 100.0, 9.0)]}
    assert result(MAP, {**lived(1.0), **beyond})["places"] == 2
