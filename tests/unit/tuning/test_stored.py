"""The stored form of the law's memory."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from outrider.api.drafting import MAX_K
from outrider.tuning.state import TunerState
from outrider.tuning.stored import MAX_BYTES, StateError, from_wire, to_wire
from outrider_protocol.schedule import MAX_ROWS, Schedule
from tests.unit.tuning.factories import POLICY, Engine, a_changed_wire, a_policy, a_start, run, with_parts


@cache
def a_learnt_state() -> TunerState:
    """The state after a minute at batch 8."""
    return run(a_start(), Engine(8.0), ticks=12)[-1].state


def a_wire(**changes: object) -> dict[str, object]:
    return a_changed_wire(a_learnt_state(), **changes)


def test_a_state_that_saw_every_batch_size_in_many_contexts_stays_small() -> None:
    policy = a_policy(max_num_seqs=512)
    state, at = a_start(policy=policy), 0.0
    pods = [Engine(pod=f"default/engine-{i}") for i in range(16)]
    for batch in (1.0, 2.0, 5.0, 8.0, 16.0, 32.0, 60.0, 120.0, 250.0, 400.0):
        for pod in pods:
            pod.batch = batch
        state = run(state, *pods, ticks=12, at=at, policy=policy)[-1].state
        at += 60.0
    assert len(json.dumps(to_wire(state))) < MAX_BYTES


KNOWN = {
    "bin": 3,
    "k": 3,
    "octave": None,
    "seconds": 1.0,
    "log_step": -3.0,
    "log_batch": 3.0,
    "log_context": None,
    "log_prompts": 0.0,
    "at": 0.0,
}


EDGE = 2**31
OPEN = {"max_batch_size": None, "num_speculative_tokens": 3}


def a_table(k: int = 3, *, edge: int = 4) -> dict[str, object]:
    return {"tiers": [{"max_batch_size": edge, "num_speculative_tokens": k}, OPEN]}


def a_profile(tried: list[float], accepted: list[float]) -> dict[str, object]:
    return {"tried": tried, "accepted": accepted}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (None, "version None"),
        ({}, "version None"),
        ([], "version None"),
        ({**a_wire(), "version": 7}, "version 7"),
        (a_wire(candidates=[0, 1]), "other candidates"),
        (a_wire(candidates=[*POLICY.candidates, 7]), "other candidates"),
        (a_wire(edges=[1, 2]), "other candidates or batch sizes"),
        (a_wire(edges=[*POLICY.bins, 4096]), "other candidates or batch sizes"),
        (a_wire(bins={"99": {"k": 3}}), "unknown batch bin"),
        (a_wire(known=[{**KNOWN, "bin": 99}]), "unknown batch bin"),
        (a_wire(bins={"3": {"k": 4}}), "not a candidate"),
        (a_wire(known=[{**KNOWN, "k": 4}]), "not a candidate"),
        (a_wire(bins={"3": {"k": 3, "replaced": 4}}), "not a candidate"),
        (a_wire(schedule={"tiers": [{**OPEN, "num_speculative_tokens": 7}]}), "not a candidate"),
        (a_wire(known=[{**KNOWN, "log_step": float("nan")}]), "log_step"),
        (a_wire(schedule={"tiers": []}), "at least one row"),
        (a_wire(surprise=1), "surprise"),
        ({**a_wire(), "version": 4}, "version 4"),
        ({"version": 5}, "state: missing"),
    ],
)
def test_a_state_that_cannot_be_continued_is_refused(data: object, complaint: str) -> None:
    with pytest.raises(StateError, match=complaint):
        from_wire(data, POLICY)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"known": [KNOWN, {**KNOWN, "seconds": 2.0}]}, "same cell twice"),
        ({"static": a_table(MAX_K + 1)}, "beyond any engine"),
        ({"static": a_table(edge=EDGE + 1)}, "beyond any engine"),
        ({"schedule": a_table(edge=EDGE + 1)}, "beyond any engine"),
        ({"profile": a_profile([9.0, 5.0], [5.0])}, "more accepted than drafted"),
        ({"profile": a_profile([9.0], [5.0, 1.0])}, "more accepted than drafted"),
        ({"profile": a_profile([9.0, 5.0], [5.0, 6.0])}, "more accepted than drafted"),
    ],
)
def test_a_state_that_the_law_would_never_have_written_is_refused(
    changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(StateError, match=complaint):
        from_wire(a_wire(**changes), POLICY)


@pytest.mark.parametrize("name", ["static", "schedule"])
def test_a_table_with_more_rows_than_any_is_refused(name: str) -> None:
    rows = [{"max_batch_size": size, "num_speculative_tokens": 3} for size in range(1, MAX_ROWS + 1)]
    with pytest.raises(StateError, match=f"{name}.*at most {MAX_ROWS}"):
        from_wire(a_wire(**{name: {"tiers": [*rows, OPEN]}}), POLICY)


@pytest.mark.parametrize(
    "changes",
    [
        {"known": [KNOWN, {**KNOWN, "k": 1}, {**KNOWN, "octave": 9}]},
        {"static": a_table(MAX_K, edge=EDGE)},
        {"schedule": a_table(edge=EDGE)},
        {"profile": a_profile([5.0, 4.0], [5.0, 0.0])},
    ],
)
def test_a_state_at_its_bounds_is_continued(changes: dict[str, object]) -> None:
    assert from_wire(a_wire(**changes), POLICY).static.rows


def test_a_state_that_knows_every_batch_bin_and_every_k_is_continued() -> None:
    count = len(POLICY.candidates)
    bins = {str(index): {"k": POLICY.candidates[index % count]} for index in range(len(POLICY.bins))}
    assert set(from_wire(a_wire(bins=bins), POLICY).bins) == set(range(len(POLICY.bins)))


def test_the_complaint_names_the_first_field() -> None:
    with pytest.raises(StateError, match=r"^state\.learning\.known\[0\]\.seconds: "):
        from_wire(a_wire(known=[{**KNOWN, "seconds": "long", "at": "later"}]), POLICY)


def test_an_untouched_state_survives() -> None:
    state = TunerState.start(Schedule.constant(3), POLICY)
    assert from_wire(to_wire(state), POLICY) == state


def test_version_5_forgets_what_probes_cost_and_keeps_the_rest() -> None:
    state = with_parts(a_learnt_state(), until=100.0, credit=3.0)
    old = a_changed_wire(with_parts(state, probes=()), budget={"credit": 3.0, "loss": 0.4})
    assert from_wire({**old, "version": 5}, POLICY) == with_parts(state, comparison_credit=0.0, probes=())


def test_version_5_keeps_defaults_where_a_part_was_added_later() -> None:
    state = a_start()
    raw: dict[str, Any] = a_changed_wire(state)["state"]  # type: ignore[assignment]
    kept = {name: raw[name] for name in ("static", "schedule", "candidates", "edges")}
    assert from_wire({"version": 5, "state": kept}, POLICY) == state
