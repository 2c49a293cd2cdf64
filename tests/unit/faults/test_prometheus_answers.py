"""What wrong answers of Prometheus look like."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.prometheus import Stopped, backwards, of_rows, of_samples, without

_METRIC = {"__name__": "steps", "pod": "p"}


def answer(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": rows}}).encode()


def rows(body: bytes) -> Any:
    return json.loads(body)["data"]["result"]


def test_each_sample_is_changed_and_counts_are_left() -> None:
    count = {"metric": {}, "value": [1.0, "5"]}
    body = answer({"metric": _METRIC, "values": [[1.0, "2"]]}, count)
    assert rows(of_samples(lambda at, value: (at + 600, value))(body)) == [
        {"metric": _METRIC, "values": [[601.0, "2"]]},
        count,
    ]


def test_counters_fall() -> None:
    body = answer({"metric": _METRIC, "values": [[1.0, "2"], [2.0, "3"]]})
    assert rows(of_rows(backwards)(body))[0]["values"] == [[1.0, "3"], [2.0, "2"]]


def test_a_metric_is_left_out() -> None:
    assert rows(without("steps")(answer({"metric": _METRIC, "values": []}))) == []


def test_a_prometheus_that_stopped_repeats_its_first_answer() -> None:
    stopped = Stopped()
    assert [stopped(b"1"), stopped(b"2")] == [b"1", b"1"]
