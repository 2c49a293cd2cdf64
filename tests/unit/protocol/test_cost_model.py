"""The cost model: what is read from the wire, what is refused by name, and the step times in between."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_protocol.cost_model import CostModel, CostModelError, parse_cost_model
from outrider_protocol.schedule import Row, Schedule

MODEL = CostModel(
    revision="r7",
    candidates=(0, 2, 5),
    batch_sizes=(1, 8, 64),
    step_seconds=((0.008, 0.011, 0.015), (0.0085, 0.012, 0.017), (0.011, 0.018, 0.027)),
    errors=((0.03, 0.03, 0.03),) * 3,
    context_tokens=1000.0,
    context_slopes=(2e-8, 2.4e-8, 3e-8),
    limits=Schedule((Row(8, 5), Row(32, 2), Row(None, 0))),
)


def test_wire_form_is_read_back_as_it_was() -> None:
    assert parse_cost_model(json.loads(json.dumps(MODEL.to_wire()))) == MODEL


def test_pause_weight_is_sent_only_where_it_has_an_effect() -> None:
    weighted = replace(MODEL, pause_weight=0.25)
    assert parse_cost_model(json.loads(json.dumps(weighted.to_wire()))) == weighted
    assert "pauseWeight" not in MODEL.to_wire()


def test_step_time_is_linear_between_knots_and_held_outside() -> None:
    assert MODEL.seconds(2, 8) == pytest.approx(0.012)
    assert MODEL.seconds(2, 36) == pytest.approx(0.015)
    assert MODEL.seconds(2, 500) == pytest.approx(0.018)


def test_context_beyond_that_of_the_measurement_lengthens_a_step_by_its_slope() -> None:
    longer = MODEL.seconds(5, 8, 8 * 1000 + 100_000)
    assert longer - MODEL.seconds(5, 8, 8 * 1000) == pytest.approx(100_000 * 3e-8)


@pytest.mark.parametrize(("batch", "allowed"), [(1, (0, 2, 5)), (8, (0, 2, 5)), (9, (0, 2)), (33, (0,))])
def test_limits_leave_out_candidates_by_batch_size(batch: int, allowed: tuple[int, ...]) -> None:
    assert MODEL.allowed(batch) == allowed


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"revision": ""}, "revision"),
        ({"revision": "r" * 129}, "revision"),
        ({"candidates": [0, 2, 2]}, r"candidates\[2\]"),
        ({"candidates": [0, 2, True]}, r"candidates\[2\]"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [0, 2, 65]}, r"candidates\[2\]"),
        ({"batchSizes": [8, 1, 64]}, r"batchSizes\[1\]"),
        ({"batchSizes": list(range(1, 66))}, "batchSizes"),
        ({"stepSeconds": [[0.01] * 3] * 2}, "stepSeconds"),
        ({"stepSeconds": [[0.01, 0.01], [0.01] * 3, [0.01] * 3]}, r"stepSeconds\[0\]"),
        ({"stepSeconds": [[0.01, math.nan, 0.01], [0.01] * 3, [0.01] * 3]}, r"stepSeconds\[0\]\[1\]"),
        ({"stepSeconds": [[0.01, 0.0, 0.01], [0.01] * 3, [0.01] * 3]}, r"stepSeconds\[0\]\[1\]"),
        ({"errors": [[math.inf] * 3] * 3}, r"errors\[0\]\[0\]"),
        ({"contextTokens": -1}, "contextTokens"),
        ({"contextTokens": 10**400}, "contextTokens"),
        ({"contextSlopes": [0.0, 0.0]}, "contextSlopes"),
        ({"contextSlopes": [0.0, 0.0, -1e-9]}, r"contextSlopes\[2\]"),
        ({"limits": [{"maxBatchSize": 8, "numSpeculativeTokens": 2}]}, "limits"),
        ({"limits": [{"numSpeculativeTokens": 2}, {"numSpeculativeTokens": 2}]}, "limits"),
        ({"limits": [{"numSpeculativeTokens": None}]}, r"limits\[0\]"),
        ({"limits": [{"numSpeculativeTokens": 2, "another": 1}]}, r"limits\[0\]"),
        (
            {"limits": [{"maxBatchSize": 2**32, "numSpeculativeTokens": 2}, {"numSpeculativeTokens": 0}]},
            "limits",
        ),
        ({"lookSeconds": "0"}, "lookSeconds"),
        ({"pauseWeight": -0.1}, "pauseWeight"),
        ({"another": 1}, "not known"),
    ],
)
def test_unusable_cost_model_is_refused_by_name(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CostModelError, match=complaint):
        parse_cost_model({**MODEL.to_wire(), **change})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(key=st.sampled_from(sorted(MODEL.to_wire())), value=_JSON)
def test_any_json_in_place_of_a_field_is_read_or_refused(key: str, value: object) -> None:
    try:
        model = parse_cost_model({**MODEL.to_wire(), key: value})
    except CostModelError:
        return
    for batch in (1, 7, 100):
        assert all(math.isfinite(model.seconds(k, batch, 10**6)) for k in model.allowed(batch))
