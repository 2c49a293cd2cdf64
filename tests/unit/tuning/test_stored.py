"""The stored form of the law's memory."""

from __future__ import annotations

import json

import pytest

from outrider.api.schedule import Schedule
from outrider.tuning.state import TunerState
from outrider.tuning.stored import LARGEST_BYTES, StateError, from_wire, to_wire
from tests.unit.tuning.factories import Engine, a_policy, a_start, run

POLICY = a_policy()


def a_wire(**changes: object) -> dict[str, object]:
    state = run(a_start(), Engine(8.0), ticks=12)[-1].state
    wire = json.loads(json.dumps(to_wire(state)))
    wire["state"].update(changes)
    return dict(wire)


def test_a_state_that_saw_every_batch_size_in_many_contexts_stays_small() -> None:
    policy = a_policy(max_num_seqs=512)
    state, at = a_start(policy=policy), 0.0
    pods = [Engine(pod=f"default/engine-{i}") for i in range(16)]
    for batch in (1.0, 2.0, 5.0, 8.0, 16.0, 32.0, 60.0, 120.0, 250.0, 400.0):
        for pod in pods:
            pod.batch = batch
        state = run(state, *pods, ticks=12, at=at, policy=policy)[-1].state
        at += 60.0
    assert len(json.dumps(to_wire(state))) < LARGEST_BYTES


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


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {**a_wire(), "version": 4},
        a_wire(candidates=[0, 1]),
        a_wire(edges=[1, 2]),
        a_wire(bins={"3": {"k": 4}}),
        a_wire(bins={"99": {"k": 3}}),
        a_wire(known=[{**KNOWN, "k": 4}]),
        a_wire(known=[{**KNOWN, "bin": 99}]),
        a_wire(known=[{**KNOWN, "log_step": float("nan")}]),
        a_wire(bins={"3": {"k": 3, "replaced": 4}}),
        a_wire(trial={"bin": 3, "k": 4, "started_at": 0.0, "heard_at": 0.0}),
        a_wire(schedule={"tiers": []}),
        a_wire(schedule={"tiers": [{"max_batch_size": None, "num_speculative_tokens": 7}]}),
        a_wire(surprise=1),
        {"version": 1},
        {"version": 2},
        {"version": 2, "state": {"known": 5}},
    ],
)
def test_a_state_that_cannot_be_continued_is_refused(data: object) -> None:
    with pytest.raises(StateError):
        from_wire(data, POLICY)


def test_the_complaint_names_the_field() -> None:
    with pytest.raises(StateError, match=r"state\.known\.0\.seconds"):
        from_wire(a_wire(known=[{**KNOWN, "seconds": "long"}]), POLICY)


def test_version_1_keeps_its_tables_and_loses_its_measurements() -> None:
    old = {
        "version": 1,
        "state": {
            "static": {"tiers": [{"max_batch_size": None, "num_speculative_tokens": 3}]},
            "schedule": {"tiers": [{"max_batch_size": None, "num_speculative_tokens": 1}]},
            "candidates": list(POLICY.candidates),
            "edges": list(POLICY.bins),
            "bins": {"3": {"k": 1, "decided": True, "measured": {"1": {"tokens": 5.0}}}},
            "first_accepted": 10.0,
            "first_drafted": 20.0,
        },
    }
    state = from_wire(old, POLICY)
    assert state.schedule == Schedule.constant(1)
    assert state.bins == {}
    assert (state.first_accepted, state.first_drafted) == (10.0, 20.0)


def test_version_2_keeps_its_step_times_and_does_not_know_of_prompts() -> None:
    cell = {name: value for name, value in KNOWN.items() if name != "log_prompts"}
    state = from_wire({**a_wire(known=[{**cell, "prefill": 40.0}]), "version": 2}, POLICY)
    assert [(k.log_step, k.log_prompts) for k in state.known] == [(-3.0, 0.0)]


def test_an_untouched_state_survives() -> None:
    state = TunerState.start(Schedule.constant(3), POLICY)
    assert from_wire(to_wire(state), POLICY) == state
