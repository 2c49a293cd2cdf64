"""When a measurement on stand-ins is void."""

from __future__ import annotations

import pytest

from examples.kit.lateness import MOST_LATE, Lateness, is_void, late, lateness_of, latest
from outrider_twin.exposition import render
from outrider_twin.pace import Lateness as Counted
from outrider_twin.pace import report


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (Lateness(100.0, 40.0), Lateness(200.0, 40.5), 0.005),
        (Lateness(100.0, 40.0), Lateness(200.0, 42.0), 0.02),
        (Lateness(100.0, 40.0), Lateness(100.0, 40.0), 0.0),
        (Lateness(100.0, 40.0), Lateness(100.0, 41.0), 1.0),
        (Lateness(100.0, 40.0), Lateness(50.0, 41.0), 1.0),
        (Lateness(100.0, 40.0), Lateness(150.0, 0.1), 1.0),
    ],
    ids=["on time", "late", "idle", "late without a step", "began anew", "began anew and went far"],
)
def test_what_counts_is_the_increase_and_not_the_ratio_since_the_start(
    before: Lateness, after: Lateness, share: float
) -> None:
    assert late(before, after) == pytest.approx(share)


def test_the_latest_engine_counts_and_a_removed_one_does_not() -> None:
    before = {"a": Lateness(0.0, 0.0), "b": Lateness(0.0, 0.0), "gone": Lateness(0.0, 0.0)}
    after = {"a": Lateness(100.0, 0.1), "b": Lateness(50.0, 2.0), "new": Lateness(1.0, 1.0)}
    assert latest(before, after) == pytest.approx(0.04)
    assert latest({}, after) == 0.0


@pytest.mark.parametrize(("share", "void"), [(None, False), (MOST_LATE, False), (0.011, True), (1.0, True)])
def test_more_than_one_per_cent_is_void_and_an_engine_that_computes_is_never_late(
    share: float | None, *, void: bool
) -> None:
    assert is_void(share) is void


def test_only_the_metrics_of_a_stand_in_report_lateness() -> None:
    counted = Counted(steps=7, scheduled=12.5, lost=0.25, latest=0.1)
    told = render([report("h100_8b", counted, time_factor=1.0, asynchronous=True)], model_name="simulated")
    assert lateness_of(told.decode()) == Lateness(12.5, 0.25)
    assert lateness_of("vllm:generation_tokens_total 5\n") is None
