"""Half an hour of random faults: the operator never ends, always recovers, and does not grow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.kills import Course, live_until
from tests.faults.life import SETTINGS, a_life
from tests.faults.place import Place
from tests.faults.soak import soak
from tests.faults.warm_operator import TASKS

SEED = 41


@pytest.mark.nightly("long")
@pytest.mark.timeout(7200)
def test_random_faults_for_a_long_time(
    place: Place,
    namespaces: Callable[[], str],
    reference: Course,
    request: pytest.FixtureRequest,
) -> None:
    namespace = namespaces()
    tasks = place.server.folder / f"{namespace}.tasks"
    settings = {**SETTINGS, "OUTRIDER_RESYNC_SECONDS": "10", TASKS: str(tasks)}
    minutes = float(request.config.getoption("--soak-minutes"))
    with a_life(place, namespace, settings) as life:
        live_until(life, "retune", reference)
        soaked = soak(life, tasks, seconds=60 * minutes, seed=SEED)
        assert life.operator.starts == 1, "the process ended"
    print(f"{life.client.answered} requests of clients were answered", flush=True)
    problems = soaked.problems + [f"a request of a client: {each}" for each in life.client.failed]
    assert not problems, "\n".join(problems)
