"""A stored state by a stranger: refused whole, before it costs anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.controller.tune.snapshot import read_estimates, read_snapshot
from outrider.tuning.estimate.surface import MAX_KNOWN
from outrider.tuning.stored import MAX_BYTES, StateError, from_wire, to_wire
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.tuning.factories import POLICY, Engine, a_changed_wire, a_start, run
from tests.unit.tuning_loop.factories import a_model

LEARNT = run(a_start(), Engine(8.0), ticks=12)[-1].state


def a_wire(**changes: object) -> dict[str, object]:
    return a_changed_wire(LEARNT, **changes)


CELL = a_wire()["state"]["learning"]["known"][0]  # type: ignore[index]
BIN, PACE = {"k": 3}, {"mean": 0.0, "variance": 0.09}
LATE = 1e20


def cells(count: int) -> list[object]:
    """Each of another octave, so that none is there twice."""
    return [{**CELL, "octave": index % 50, "k": POLICY.candidates[index // 50]} for index in range(count)]


@pytest.mark.parametrize(
    "data",
    [
        a_wire(known=[CELL, CELL]),
        a_wire(known=[CELL] * 1500),
        a_wire(known=cells(MAX_KNOWN + 1)),
        a_wire(known=[{**CELL, "log_step": 1000.0}]),
        a_wire(known=[{**CELL, "log_batch": -1000.0}]),
        a_wire(known=[{**CELL, "log_context": 1e300}]),
        a_wire(known=[{**CELL, "seconds": -1.0}]),
        a_wire(known=[{**CELL, "at": LATE}]),
        a_wire(known=[{**CELL, "octave": 10**30}]),
        a_wire(pods={"default/a": {**PACE, "variance": -1e-5}}),
        a_wire(pods={"default/a": {**PACE, "mean": 1e300}}),
        a_wire(bins={"3": {**BIN, "changed_at": LATE}}),
        a_wire(bins={"3": {**BIN, "credit": 1e300}}),
        a_wire(at=LATE),
        a_wire(log_noise=1000.0),
        a_wire(credit=1e300),
        a_wire(probes=[{"bin": 99, "k": 1, "seconds": 1.0, "loss": 0.1}]),
        a_wire(probes=[{"bin": 3, "k": 77, "seconds": 1.0, "loss": 0.1}]),
        a_wire(probes=[{"bin": 3, "k": 1, "seconds": 1.0, "loss": 1e300}]),
        a_wire(ticks=10**4000),
        a_wire(overhead={"mean": 1e300, "variance": 0.01}),
        a_wire(overhead={"mean": 0.05, "variance": -1.0}),
        a_wire(comparison={"before": {"mean": 0.05, "variance": 0.01}, "cells": [CELL] * 33}),
        a_wire(profile={"tried": [1.0] * 33, "accepted": [1.0] * 33}),
        a_wire(profile={"tried": [1.0], "accepted": [1.0, 1.0]}),
        a_wire(profile={"tried": [1.0], "accepted": [1000.0]}),
        a_wire(static={"tiers": [{"max_batch_size": None, "num_speculative_tokens": 10**9}]}),
        a_wire(
            static={
                "tiers": [
                    *({"max_batch_size": limit, "num_speculative_tokens": 3} for limit in range(1, 80)),
                    {"max_batch_size": None, "num_speculative_tokens": 3},
                ]
            }
        ),
    ],
    ids=range(28),
)
def test_a_state_beyond_what_the_law_writes_is_refused(data: object) -> None:
    with pytest.raises(StateError):
        from_wire(data, POLICY)


def test_as_many_cells_as_the_law_remembers_are_read() -> None:
    assert len(from_wire(a_wire(known=cells(MAX_KNOWN)), POLICY).learning.known) == MAX_KNOWN


@pytest.mark.parametrize("read", [lambda text: read_snapshot(text, a_model()), read_estimates])
@pytest.mark.parametrize("text", [" " * (MAX_BYTES + 1), "[" * (MAX_BYTES + 1)], ids=["blank", "deep"])
def test_a_text_beyond_the_limit_is_refused_by_its_size(read: object, text: str) -> None:
    with pytest.raises(StateError, match=f"exceed the limit of {MAX_BYTES}"):
        read(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    "part",
    [
        {"relaunches": {"strikes": -1}},
        {"relaunches": {"started_at": LATE}},
        {"relaunches": {"taken_back": "x" * 2000}},
        {"relaunches": {"refused": [{"launch": "", "until": 0.0}] * 65}},
        {"estimates": {str(index): None for index in range(65)}},
    ],
    ids=range(5),
)
def test_what_is_stored_beside_the_state_is_bounded_as_well(part: dict[str, object]) -> None:
    model = a_model()
    state = to_wire(replace(a_start(policy=model.policy), static=model.static))
    text = {"mode": "Auto", "static": model.static.to_wire(), "state": state}
    assert read_snapshot(json.dumps(text), model) is not None
    with pytest.raises(StateError):
        read_snapshot(json.dumps({**text, **part}), model)


def test_a_clock_that_went_back_for_months_breaks_no_tick() -> None:
    state = run(a_start(), Engine(8.0), ticks=40, at=1e8)[-1].state
    assert any(b.changed_at is not None for b in state.bins.values())
    window = Engine(8.0).window(None, state, seconds=5.0, at=5.0)
    decide(TickContext([window], state, policy=POLICY, now=5.0))


def numbers(part: object) -> Iterator[tuple[object, object]]:
    """Every number in it: where it lies."""
    children = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, child in children:
        if isinstance(child, int | float) and not isinstance(child, bool):
            yield part, key
        yield from numbers(child)


EXTREMES = [0, -1, 1, 61, 99.0, 1e6, 1e9, 1e10, 1e11, 1e300, -1e300, 2**53, 1e-300]


@given(st.data())
def test_whatever_is_written_into_a_state_it_is_refused_or_the_law_goes_on_with_it(
    data: st.DataObject,
) -> None:
    wire = a_wire()
    for part, key in data.draw(st.lists(st.sampled_from(list(numbers(wire["state"]))), max_size=3)):
        part[key] = data.draw(st.sampled_from(EXTREMES))  # type: ignore[index]
    try:
        state = from_wire(wire, POLICY)
    except StateError:
        return
    run(state, Engine(8.0), Engine(30.0, pod="default/b"), ticks=3, at=1000.0)
