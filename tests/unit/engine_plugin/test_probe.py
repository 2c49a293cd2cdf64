"""A probe's slices, its end, and what it says of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.control.probe import Probe, parse_probe, start
from outrider_protocol.control_api import Reason, Refusal, Slice
from outrider_protocol.engine_state import ProbeReason
from tests.unit.engine_plugin.factories import LAUNCHED, MAX_NUM_SEQS, a_probe, a_step


def a_body(**overrides: object) -> dict[str, Any]:
    body = {
        "term": 3,
        "epoch": 17,
        "id": "p42",
        "minBatchSize": 7,
        "maxBatchSize": 12,
        "slices": [{"numSpeculativeTokens": 1, "seconds": 1.0}, {"numSpeculativeTokens": 0, "steps": 50}],
        "deadlineSeconds": 20,
    }
    return {name: value for name, value in (body | overrides).items() if value is not ...}


def ran(probe: Probe, *steps: Any) -> Probe:
    for step in steps:
        probe = probe.after(step)
    return probe


def test_the_current_slice_rules_its_bin_and_no_other() -> None:
    over = start(a_probe(Slice(1, steps=1), low=7, high=12), 0).over(LAUNCHED)
    assert over[7:13] == (1,) * 6
    assert (over[:7], over[13:]) == (LAUNCHED[:7], LAUNCHED[13:])


def test_an_open_bin_reaches_to_the_largest_batch() -> None:
    over = start(a_probe(Slice(1, steps=1), low=13, high=None), 0).over(LAUNCHED)
    assert over == (*LAUNCHED[:13], *(1,) * (MAX_NUM_SEQS - 12))


def test_a_slice_ends_after_its_steps() -> None:
    probe = start(a_probe(Slice(1, steps=2), Slice(5, steps=1)), 0)
    assert ran(probe, a_step(k=1)).current.num_speculative_tokens == 1
    assert ran(probe, a_step(k=1), a_step(k=1)).current.num_speculative_tokens == 5


def test_a_slice_ends_after_its_engine_time() -> None:
    probe = start(a_probe(Slice(1, seconds=0.15), Slice(5, steps=1)), 0)
    assert ran(probe, a_step(k=1, seconds=0.1)).current.num_speculative_tokens == 1
    assert ran(probe, a_step(k=1, seconds=0.1), a_step(k=1, seconds=0.1)).current.num_speculative_tokens == 5


def test_whichever_of_both_limits_comes_first_ends_a_slice() -> None:
    probe = start(a_probe(Slice(1, seconds=10.0, steps=1), Slice(5, seconds=0.1, steps=99)), 0)
    probe = ran(probe, a_step(k=1), a_step(k=5, seconds=0.2))
    assert probe.reason is ProbeReason.COMPLETED


def test_a_completed_probe_leaves_the_table() -> None:
    probe = ran(start(a_probe(Slice(1, steps=1)), 0), a_step(k=1))
    assert (probe.running, probe.over(LAUNCHED)) == (False, LAUNCHED)


@pytest.mark.parametrize("step", [a_step(batch=6), a_step(batch=13), a_step(k=5)])
def test_steps_of_another_bin_or_k_do_not_count(step: Any) -> None:
    probe = start(a_probe(Slice(1, steps=1), low=7, high=12), 0)
    assert probe.after(step) == probe


def test_mixed_steps_are_used_up_and_not_told() -> None:
    probe = ran(start(a_probe(Slice(1, steps=2)), 0), a_step(k=1, mixed=True), a_step(k=1, emitted=9))
    (result,) = probe.to_wire()["results"]
    assert (probe.reason, result["steps"], result["emittedTokens"]) == (ProbeReason.COMPLETED, 1, 9)


def test_results_are_the_sums_of_each_slice() -> None:
    probe = start(a_probe(Slice(1, steps=2), Slice(5, steps=2)), 0)
    probe = ran(probe, a_step(k=1, emitted=8), a_step(k=1, batch=9, emitted=9), a_step(k=5, emitted=20))
    wire = probe.to_wire()
    assert (wire["running"], wire["reason"]) == (True, "Running")
    assert wire["results"] == [
        {
            "numSpeculativeTokens": 1,
            "steps": 2,
            "seconds": pytest.approx(0.2),
            "scheduledRequests": 17,
            "emittedTokens": 17,
        },
        {
            "numSpeculativeTokens": 5,
            "steps": 1,
            "seconds": pytest.approx(0.1),
            "scheduledRequests": 8,
            "emittedTokens": 20,
        },
    ]


def test_the_deadline_ends_a_probe() -> None:
    probe = start(a_probe(deadline_seconds=20), 100.0)
    assert probe.at(119.9).running
    assert probe.at(120.0).reason is ProbeReason.DEADLINE


def test_the_first_reason_stays() -> None:
    ended = start(a_probe(deadline_seconds=20), 0).ended(ProbeReason.SUPERSEDED)
    assert ended.at(1000).reason is ProbeReason.SUPERSEDED


@given(st.lists(st.tuples(st.integers(1, 16), st.sampled_from([0, 1, 5]), st.booleans(), st.floats(0, 1))))
def test_a_probe_ends_at_its_deadline_whatever_the_engine_does(
    steps: list[tuple[int, int, bool, float]],
) -> None:
    probe = start(a_probe(Slice(1, steps=5), Slice(5, seconds=1.0), deadline_seconds=20), 0)
    for size, k, mixed, seconds in steps:
        probe = probe.after(a_step(batch=size, k=k, mixed=mixed, seconds=seconds))
    assert probe.at(20).over(LAUNCHED) == LAUNCHED
    assert len(probe.tallies) <= 2


def test_a_probe_is_read() -> None:
    probe = parse_probe(a_body())
    assert (probe.fence.term, probe.fence.epoch, probe.id) == (3, 17, "p42")
    assert (probe.low, probe.high, probe.deadline_seconds) == (7, 12, 20)
    assert probe.slices == (Slice(1, seconds=1.0), Slice(0, steps=50))


@pytest.mark.parametrize("high", [..., None])
def test_an_open_bin_leaves_out_its_upper_edge(high: object) -> None:
    assert parse_probe(a_body(maxBatchSize=high)).high is None


def test_the_wire_form_reads_back_as_the_same_probe() -> None:
    probe = parse_probe(a_body())
    assert parse_probe(json.loads(json.dumps(probe.to_wire()))) == probe


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ([], "the body"),
        (a_body(more=1), "the body"),
        (a_body(term=...), "term"),
        (a_body(term=-1), "term"),
        (a_body(epoch=1.5), "epoch"),
        (a_body(id=""), "id"),
        (a_body(id="x" * 129), "id"),
        (a_body(id="a\nb"), "id"),
        (a_body(id="\ud800"), "id"),
        (a_body(id=7), "id"),
        (a_body(minBatchSize=0), "minBatchSize"),
        (a_body(maxBatchSize=6), "maxBatchSize"),
        (a_body(slices=[]), "slices"),
        (a_body(slices=[{"numSpeculativeTokens": 1, "steps": 1}] * 33), "slices"),
        (a_body(slices=[{"numSpeculativeTokens": 1}]), "slices[0]"),
        (a_body(slices=[{"numSpeculativeTokens": 1, "steps": 0}]), "slices[0].steps"),
        (a_body(slices=[{"numSpeculativeTokens": 1, "seconds": 0}]), "slices[0].seconds"),
        (a_body(slices=[{"numSpeculativeTokens": 1, "seconds": 61}]), "slices[0].seconds"),
        (a_body(slices=[{"numSpeculativeTokens": 1, "seconds": float("nan")}]), "slices[0].seconds"),
        (a_body(slices=[{"steps": 1}]), "slices[0]"),
        (a_body(deadlineSeconds=0), "deadlineSeconds"),
        (a_body(deadlineSeconds=601), "deadlineSeconds"),
        (a_body(deadlineSeconds=True), "deadlineSeconds"),
    ],
)
def test_a_malformed_probe_is_refused_by_name(body: object, named: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_probe(body)
    assert refused.value.reason is Reason.MALFORMED
    assert named in refused.value.message


def test_the_largest_probe_that_is_documented_is_taken() -> None:
    slices = [{"numSpeculativeTokens": 1, "seconds": 60}] * 32
    probe = parse_probe(a_body(id="x" * 128, slices=slices, deadlineSeconds=600))
    assert (len(probe.slices), probe.slices[0].seconds, probe.deadline_seconds) == (32, 60, 600)
