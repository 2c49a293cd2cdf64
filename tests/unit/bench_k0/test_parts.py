"""What the sums of the timers say about a step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.k0.arms import AGAIN, BOTH, SKIP, STOCK
from tests.bench.k0.parts import differences, table
from tests.bench.k0.sums import BESIDES, ROWS, STEP, TOKEN, Sums, read, with_timers
from tests.bench.k0.timers import FILE_VARIABLE, Part
from tests.contract.engine import Launch


def sums(steps: int = 10, /, **milliseconds: float) -> Sums:
    spent = {Part[name].value: 1e6 * steps * value for name, value in milliseconds.items()}
    return Sums(spent, {Part.FORWARD: steps, Part.SAMPLER: steps}, nanoseconds_per_call=500.0)


def step(**milliseconds: float) -> dict[str, float]:
    return {**sums(**milliseconds).milliseconds(), TOKEN: 12.0}


def test_a_step_is_the_sum_of_its_parts_without_the_steps_with_prompts() -> None:
    found = sums(FORWARD=8.0, SAMPLER=1.0, BETWEEN=1.0, OTHER_STEPS=3.0).milliseconds()
    assert (found[Part.FORWARD], found[STEP], found[Part.OTHER_STEPS]) == (8.0, 10.0, 3.0)
    assert found[BESIDES] == 2.0


def test_a_run_is_what_came_since_the_sums_before_it() -> None:
    run = sums(30, FORWARD=2.0) - sums(10, FORWARD=3.0)
    assert run.steps == 20
    assert run.milliseconds()[Part.FORWARD] == pytest.approx(1.5)


def test_a_part_that_an_engine_lacks_takes_no_time() -> None:
    assert sums(FORWARD=1.0).milliseconds()[Part.DRAFTER] == 0.0


def test_timers_take_as_long_as_their_calls() -> None:
    assert sums().timers_milliseconds() == pytest.approx(2 * 500 / 1e6)


def test_an_engine_that_has_not_rested_yet_has_timed_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sums.json"
    assert read(file).steps == 0
    written = {"nanoseconds": {Part.FORWARD: 5}, "calls": {Part.FORWARD: 1}, "nanoseconds_per_call": 1.0}
    file.write_text(json.dumps(written))
    assert read(file).steps == 1


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


def test_engines_that_were_not_started_are_not_compared() -> None:
    runs = {arm: [step(FORWARD=10.0)] for arm in (STOCK, AGAIN, SKIP)}
    assert set(differences(runs)) == {f"{AGAIN} against {STOCK}", f"{SKIP} against {BOTH}"}


@pytest.mark.parametrize(
    ("arm", "plugins"),
    [(STOCK, "k0_timers"), (SKIP, "outrider_api,k0_timers_with_outrider")],
)
def test_timers_come_with_outriders_plugin_where_the_arm_has_it(arm: str, plugins: str) -> None:
    launch = with_timers(arm, Launch(variables={"OUTRIDER_K0": "Skip"}), Path("sums.json"))
    assert launch.variables == {
        "OUTRIDER_K0": "Skip",
        "VLLM_PLUGINS": plugins,
        FILE_VARIABLE: "sums.json",
    }


def test_the_table_has_a_line_for_each_part_and_for_memory() -> None:
    runs = {arm: [step(FORWARD=10.0), step(FORWARD=10.0)] for arm in (STOCK, AGAIN, SKIP)}
    arms = {
        arm: {
            "milliseconds_per_step": found[0],
            "timers_milliseconds_per_step": 0.005,
            "memory": {"resident_mib": 2100.5, "kv_cache_blocks": 341},
        }
        for arm, found in runs.items()
    }
    lines = table({"streams": 8, "arms": arms, "differences": differences(runs)}).splitlines()
    assert lines[0].startswith("Streams: 8.")
    assert lines[1].split("  ")[-1].strip() == f"{SKIP}, % more"
    begins = [line[: len(row)] for line, row in zip(lines[2:], ROWS, strict=False)]
    assert begins == [str(row) for row in ROWS]
    assert [cell.strip() for cell in lines[2 + ROWS.index(Part.FORWARD)].split("  ") if cell.strip()] == [
        Part.FORWARD,
        *["10.000"] * 3,
        *["+0.00 (+0.00 to +0.00)"] * 2,
    ]
    assert [line.split()[-1] for line in lines[-3:]] == ["0.005", "2100.5", "341"]
