"""What the sums of the timers say about a step."""

from __future__ import annotations

from tests.bench.k0.arms import AGAIN, BOTH, SKIP, STOCK
from tests.bench.k0.parts import differences
from tests.bench.k0.sums import BESIDES, STEP, TOKEN, Sums
from tests.bench.k0.timers import Part


def sums(steps: int = 10, /, **milliseconds: float) -> Sums:
    spent = {Part[name].value: 1e6 * steps * value for name, value in milliseconds.items()}
    return Sums(spent, {Part.FORWARD: steps, Part.SAMPLER: steps}, nanoseconds_per_call=500.0)


def step(**milliseconds: float) -> dict[str, float]:
    return {**sums(**milliseconds).milliseconds(), TOKEN: 12.0}


def test_a_step_is_the_sum_of_its_parts_without_the_steps_with_prompts() -> None:
    found = sums(FORWARD=8.0, SAMPLER=1.0, BETWEEN=1.0, OTHER_STEPS=3.0).milliseconds()
    assert (found[Part.FORWARD], found[STEP], found[Part.OTHER_STEPS]) == (8.0, 10.0, 3.0)
    assert found[BESIDES] == 2.0


def test_a_difference_is_in_percent_of_the_step_so_that_parts_add_up() -> None:
    runs = {
        STOCK: [step(FORWARD=9.0, SAMPLER=0.0)],
        AGAIN: [step(FORWARD=11.0, SAMPLER=0.0)],
        SKIP: [step(FORWARD=10.1, SAMPLER=0.2)],
    }
    found = differences(runs)[f"{SKIP} against {BOTH}"]
    assert found[Part.FORWARD]["median_percent"] == 1.0
    assert found[Part.SAMPLER]["median_percent"] == 2.0
    assert found[STEP]["median_percent"] == 3.0
