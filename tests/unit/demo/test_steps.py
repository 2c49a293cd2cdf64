"""K in use, from the engine's counters."""

from __future__ import annotations

from examples.demo.steps import Steps, differences, totals


def series(k: str, *values: float, batch: str = "8-11", since: float = 0.0) -> dict[str, object]:
    """As Prometheus returns it, with a scrape every five seconds."""
    samples = [[since + 5 * place, str(value)] for place, value in enumerate(values)]
    return {"metric": {"batch": batch, "k": k}, "values": samples}


def test_a_series_that_appears_later_was_zero_before() -> None:
    counted = totals([series("0", 10, 30), series("5", 40, since=5.0)])
    assert differences(counted, {}) == [Steps(2.5, {0: 20.0, 5: 40.0}, chosen=0.0, total=60.0)]


def test_steps_whose_requests_drafted_with_different_k_are_in_the_total_alone() -> None:
    counted = totals([series("mixed", 0, 7), series("3", 0, 9)])
    assert differences(counted, {}) == [Steps(2.5, {3: 9.0}, chosen=0.0, total=16.0)]


def test_steps_whose_k_the_engine_chose_are_counted_apart() -> None:
    counted, chosen = totals([series("3", 0, 9, 18)]), totals([series("3", 4, since=10.0)])
    assert [span.chosen for span in differences(counted, chosen)] == [0.0, 4.0]
