"""Pods of the simulated model follow the operator's launch orders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.traffic.launches import START_SECONDS, Run
from tests.bench.traffic.structural import KINDS, Kind, place

COMMIT = "1" * 40


def a_run(kind: Kind) -> Run:
    return Run(place("a40_7b", kind, COMMIT, 0, 0.1)).all_of_it()


@pytest.fixture(scope="module")
def relaunched() -> Run:
    return a_run(replace(KINDS["relaunch"], interval=600.0))


def test_a_relaunch_ends_the_overhead_of_the_idle_drafter_in_every_pod(relaunched: Run) -> None:
    last = relaunched.moments[-1]
    assert not last.order.launch.drafter
    assert not last.drafting
    assert relaunched.started == 2
    spent = sum(span.engine_seconds for span in last.bare)
    assert sum(span.needed[0] for span in last.bare) == pytest.approx(spent)


def test_a_pod_serves_only_after_its_start(relaunched: Run) -> None:
    ordered = next(moment.at for moment in relaunched.moments if not moment.order.launch.drafter)
    bare = next(moment.at for moment in relaunched.moments if moment.bare)
    assert bare - ordered >= START_SECONDS


def test_a_canary_measures_the_overhead_and_gives_its_place_back() -> None:
    done = a_run(KINDS["canary"])
    assert any(moment.bare for moment in done.moments)
    assert not done.moments[-1].bare
    assert done.measured_overhead == pytest.approx(0.1, abs=0.06)


def test_one_replica_gets_no_canary() -> None:
    done = a_run(KINDS["one replica"])
    assert all(moment.order.canary is None for moment in done.moments)
