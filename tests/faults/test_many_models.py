"""Many models at once, counted and not timed: a short part of `make bench-scale`."""

from __future__ import annotations

import pytest

from tests.bench.scale.figures import Figures
from tests.bench.scale.operators import some_operators
from tests.bench.scale.phases import creation, steady_work
from tests.bench.scale.place import a_place

MODELS = 20
STEADY_SECONDS = 12.0
"""A tick and a bit."""
MOST_WRITES = 12
"""Per model until it is Ready: six create its objects, the others are about its status."""
MOST_READS = 1
"""Per model in that time: a reconcile, which a write of the status may cause, reads a Secret."""
MOST_PUSHES = 2.0
"""Per pod in that time: a renewal, and a schedule that changed."""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    with a_place(tmp_path_factory.mktemp("many")) as place, some_operators(place, "operator") as operators:
        place.mark()
        created = creation(place, operators, MODELS)
        return created | steady_work(place, operators, MODELS, STEADY_SECONDS, "steady")


def test_a_model_is_ready_after_few_writes(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    writes = figures["creation: writes per model until Ready"]
    assert writes is not None
    with capsys.disabled():
        cost = figures["creation: CPU per pod, ms"]
        print(f"\n{MODELS} models at creation: {cost:.0f} ms of CPU per pod, {writes:.1f} writes per model")
    assert writes <= MOST_WRITES


def test_ticks_ask_pods_seldom_and_the_api_server_hardly_ever(
    figures: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        a_minute, a_scrape = (
            figures["steady: CPU per pod and minute, ms"],
            figures["steady: CPU per scrape, ms"],
        )
        print(f"\n{MODELS} models: {a_minute:.0f} ms of CPU per pod and minute, {a_scrape:.1f} ms per scrape")
    reads, pushes = figures["steady: reads at the API server"], figures["steady: pushes per pod and minute"]
    assert reads is not None
    assert pushes is not None
    assert reads <= MOST_READS * MODELS
    assert pushes * STEADY_SECONDS / 60 <= MOST_PUSHES
