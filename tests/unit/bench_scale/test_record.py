"""The record of operators with many models: goals, tables and picture, by results of the bench."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.scale.goals import GOALS, verdict
from tests.bench.scale.record import measured, picture, record_of, tables


def a_size(models: int, **figures: float | None) -> dict[str, float | None]:
    return {
        "models": float(models),
        "creation: all Deployments, s": models / 10,
        "steady: cores": models / 2500,
        "steady: peak of memory, MiB": 150 + models / 5,
        "steady: tick, median, s": models / 100,
        "steady: longest block of the loop, s": models / 1000,
        "steady: load average of the machine": 3.0,
        **figures,
    }


def a_result(*sizes: Mapping[str, float | None], of: str = "operator", **options: Any) -> dict[str, Any]:
    return {
        "command": "python -m tests.bench.scale --json out/a.json --models 100",
        "commit": "abc1234",
        "date": "2026-01-01T00:00:00+00:00",
        "machine": {"kind": "a machine", "cores": 2},
        "of": of,
        "options": {"source": "PodScrape", "slow": "nothing", "shards": 1, **options},
        "sizes": list(sizes),
    }


ALONE = a_result(a_size(100), a_size(1000))
IN_GO = a_result({"models": 1000.0, "reference: all Deployments, s": 50.0}, of="reference")


def goal(words: str, *results: dict[str, Any]) -> str:
    (found,) = (each for each in GOALS if each.name.startswith(words))
    return verdict(found, measured(results))


def test_a_later_run_of_creation_alone_keeps_the_other_figures() -> None:
    later = a_result({"models": 1000.0, "creation: all Deployments, s": 60.0})
    found = measured([ALONE, later]).operator()[1000]
    assert (found["creation: all Deployments, s"], found["steady: cores"]) == (60.0, 0.4)


def test_a_goal_is_judged_at_the_largest_size() -> None:
    assert goal("cores in steady", ALONE) == "0.4"
    assert goal("tick, PodScrape", ALONE) == "**missed**: 10"


def test_a_size_below_the_goals_is_named() -> None:
    assert goal("cores in steady", a_result(a_size(100))) == "0.04 (100 models)"


def test_what_no_run_measured_is_not_judged() -> None:
    assert goal("tick, Prometheus", ALONE) == "not measured"
    assert goal("created at once", ALONE) == "not measured"
    assert goal("exponent", a_result(a_size(100))) == "not measured"


def test_creation_is_compared_with_the_controller_in_go() -> None:
    assert goal("created at once", ALONE, IN_GO) == "**missed**: 2"
    assert tables(measured([ALONE, IN_GO]))[3].rows[0] == [
        "1,000 models: all Deployments, s",
        "100",
        "50",
        "2",
    ]


@pytest.mark.parametrize(("pushes", "words"), [(3.15, "5"), (2.4, "**missed**: 20")])
def test_models_beside_a_silent_one_are_compared_with_normal_times(pushes: float, words: str) -> None:
    name = "pushes per pod and minute"
    size = {f"steady: {name}": 2.9, f"slow silent-model: {name}": pushes, f"afterwards: {name}": 3.1}
    result = a_result(a_size(100, **size), slow="silent-model")
    assert goal("one silent model", result) == f"{words} % ({name}; 100 models)"


def test_the_busiest_of_four_shards_counts() -> None:
    cores = {f"steady: cores of process {n}": share for n, share in enumerate((0.08, 0.1, 0.08, 0.08), 1)}
    rest = {
        f"steady: {figure}": 1.0
        for n in range(1, 5)
        for figure in (
            f"models of process {n}",
            f"tick of process {n}, median, s",
            f"peak of memory of process {n}, MiB",
        )
    }
    shards = a_result(a_size(1000, **cores, **rest), shards=4)
    assert goal("cores of one process", ALONE, shards) == "4"
    assert [row[3] for row in tables(measured([ALONE, shards]))[5].rows] == ["0.2", "0.25", "0.2", "0.2"]


def test_the_record_names_the_load_of_the_machine() -> None:
    record = record_of([ALONE], "2026-01-01-scale")
    assert "load average of 3 to 3" in record.limits
    assert record.tables[1].columns == ["models, PodScrape", "100", "1,000", "exponent"]


def test_a_result_of_a_tree_with_changes_is_no_record() -> None:
    with pytest.raises(ValueError, match="abc1234-dirty"):
        record_of([{**ALONE, "commit": "abc1234-dirty"}], "2026-01-01-scale")


def test_the_picture_has_a_panel_for_each_limit() -> None:
    drawn = picture(measured([ALONE, IN_GO]))
    assert all(title in drawn for title in ("cores", "tick, s", "memory, MiB", "controller in Go"))
