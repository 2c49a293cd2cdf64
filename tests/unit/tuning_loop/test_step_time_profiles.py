"""Whose map of step times a model goes by, who differs from it, and that it survives a restart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.controller.tune.engine_info import EngineInfo
from outrider.controller.tune.snapshot import read_profile, write_profile
from outrider.controller.tune.step_time_profiles import (
    LaunchProfile,
    describe,
    differing,
    newest,
)
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile

SIZES = (1, 2, 4)


def a_map(*, sizes: tuple[int, ...] = SIZES, slower: float = 1.0) -> StepTimeProfile:
    return StepTimeProfile(
        tuple(MapCell(size, k, 40.0 + k, 0.01 * (1 + k) * slower, 0.02) for size in sizes for k in (0, 3))
    )


def told(pod: str, step_times: StepTimeProfile | None, *, revision: str = "r1") -> EngineInfo:
    return EngineInfo(pod, revision, None, None, step_times)


def test_the_first_map_of_a_launch_is_kept() -> None:
    known = newest(None, [told("m-1", a_map())])
    assert known == LaunchProfile("r1", "m-1", a_map())
    assert newest(known, [told("m-1", a_map()), told("m-2", a_map(slower=1.02))]) == known


def test_a_pod_that_measured_more_places_replaces_it() -> None:
    known = newest(None, [told("m-1", a_map(sizes=(1,)))])
    assert newest(known, [told("m-2", a_map())]) == LaunchProfile("r1", "m-2", a_map())


def test_it_stays_while_no_pod_is_ready_and_while_the_pod_of_a_restart_has_none() -> None:
    known = newest(None, [told("m-1", a_map())])
    assert newest(known, []) == known
    assert newest(known, [told("m-2", None)]) == known


def test_it_goes_with_its_launch() -> None:
    known = newest(None, [told("m-1", a_map())])
    assert newest(known, [told("m-2", None, revision="r2")]) is None
    assert newest(known, [told("m-2", a_map(sizes=(1,)), revision="r2")]) == LaunchProfile(
        "r2", "m-2", a_map(sizes=(1,))
    )


def test_during_a_rollout_the_pods_of_before_keep_theirs() -> None:
    known = newest(None, [told("m-1", a_map())])
    assert newest(known, [told("m-1", a_map()), told("m-2", a_map(), revision="r2")]) == known


@pytest.mark.parametrize(("slower", "said"), [(1.14, "m-2 is 14 % slower"), (0.8, "m-2 is 20 % faster")])
def test_a_pod_that_is_far_from_it_is_named(slower: float, said: str) -> None:
    known = LaunchProfile("r1", "m-1", a_map())
    found = differing(known, [told("m-1", a_map()), told("m-2", a_map(slower=slower))])
    assert describe(known, found) == f"6 cells, measured by m-1 before it served; {said}"


def test_of_many_that_differ_a_few_are_named() -> None:
    known = LaunchProfile("r1", "m-1", a_map())
    found = differing(known, [told(f"m-{index}", a_map(slower=2)) for index in range(9)])
    assert str(describe(known, found)).endswith("m-2 is 100 % slower; and 6 more")


def test_a_pod_within_a_tenth_or_without_a_place_in_common_or_of_another_launch_is_not() -> None:
    known = LaunchProfile("r1", "m-1", a_map())
    others = [told("m-2", a_map(slower=1.08)), told("m-3", a_map(sizes=(8,), slower=3)), told("m-4", None)]
    assert differing(known, [*others, told("m-5", a_map(slower=3), revision="r2")]) == ()


def test_the_law_gets_candidates_only() -> None:
    known = LaunchProfile("r1", "m-1", a_map())
    left = known.among([3])
    assert left is not None
    assert left.ks == {3}
    assert known.among([7]) is None


@given(st.floats(1e-6, 100), st.integers(1, 1024), st.integers(0, 64))
def test_it_reads_back_to_four_digits(seconds: float, batch: int, k: int) -> None:
    known = LaunchProfile("r1", "m-1", StepTimeProfile((MapCell(batch, k, 40.5, seconds, 0.02),)))
    back = read_profile(json.loads(json.dumps(write_profile(known))))
    assert back is not None
    assert (back.revision, back.pod) == ("r1", "m-1")
    assert back.step_times.cells[0].step_seconds == pytest.approx(seconds, rel=1e-3)


@pytest.mark.parametrize(
    "stored", [None, 7, {}, {"version": 2}, {"version": 1, "revision": "r", "pod": "p", "cells": []}]
)
def test_what_cannot_be_read_is_no_map(stored: object) -> None:
    assert read_profile(stored) is None


def test_a_cell_that_no_engine_can_have_measured_spoils_it() -> None:
    cell = {"b": 0, "k": 1, "c": 5.0, "s": 0.1, "e": 0.1}
    assert read_profile({"version": 1, "revision": "r", "pod": "p", "cells": [cell]}) is None


def test_hundreds_of_cells_fit_beside_the_rest_of_what_is_stored() -> None:
    cells = tuple(MapCell(size, k, 2048.5, 0.0123456, 0.0123) for size in range(1, 65) for k in range(8))
    assert (
        len(json.dumps(write_profile(LaunchProfile("r" * 10, "m" * 63, StepTimeProfile(cells))))) < 32 * 1024
    )
