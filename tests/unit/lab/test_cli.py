"""``outrider simulate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.main import app
from tests.unit.lab.factories import VISIBLE, a_file


def simulate(*arguments: str, tables: Path = VISIBLE) -> Result:
    return CliRunner().invoke(app, ["simulate", "--tables", str(tables), *arguments])


def test_every_table_gets_a_line_per_policy() -> None:
    result = simulate("--policy", "hand,oracle", "--policy", "static:0", "--dwell", "130")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split()[:2] == ["table", "policy"]
    assert len(lines) == 1 + 4 * 3


def test_json_carries_the_figures_by_table_and_policy() -> None:
    result = simulate("--name", "a40_7b", "--policy", "static:0", "--load", "1,8", "--dwell", "130", "--json")
    found = json.loads(result.output)
    assert found["setting"] == {
        "engine": "table",
        "load": [1, 8],
        "dwell": 130.0,
        "noise": 0.05,
        "interval": 5.0,
        "seed": 0,
        "map_error": None,
        "latency_limit": None,
        "objective": "Goodput",
    }
    (row,) = found["results"]
    assert (row["table"], row["policy"], row["switches"], row["probe_share"]) == ("a40_7b", "static:0", 0, 0)
    assert row["mean_goodput"] == pytest.approx((33.8 + 252.3) / 2)
    assert row["regret_overall"] == pytest.approx((1 - 33.8 / 50.6 + 1 - 252.3 / 277.3) / 2)
    assert row["regret_after_120_s"] == pytest.approx(row["regret_overall"])
    assert row["worst_loss_against_no_speculation"] == pytest.approx(0)
    assert row["seconds_to_95_percent"] is None
    assert len(row["phases"]) == 2


def test_the_law_is_the_default_and_the_seed_fixes_the_output() -> None:
    arguments = ("--name", "cpu_tiny_code", "--load", "8", "--dwell", "60", "--json")
    once, again = simulate(*arguments, "--seed", "3"), simulate(*arguments, "--seed", "3")
    assert once.output == again.output
    assert json.loads(once.output)["results"][0]["policy"] == "outrider"


def test_with_a_step_time_profile_the_schedule_alone_loses_less() -> None:
    arguments = ("--name", "a40_7b", "--policy", "outrider-schedule", "--dwell", "130", "--json")
    without, mapped = (
        json.loads(simulate(*arguments, *more).output)["results"][0]["regret_overall"]
        for more in ((), ("--map-error", "0.03"))
    )
    assert mapped < 0.5 * without


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--name", "x"), "no table 'x', there are: a40_7b, gb10_qwen3_coder_30b"),
        (("--policy", "magic"), "unknown policy 'magic', known are: outrider"),
        (("--policy", "static:9"), "table a40_7b: static:9: K must be one of the table's 0, 1, 2, 3"),
        (("--policy", "adaptive"), "adaptive: adaptive verification needs --engine formula or events"),
        (("--load", "1,,2"), "--load: entry 1 is ''"),
        (("--load", "1,0"), "--load: entry 1 is '0'"),
        (("--load", "1,-2"), "--load: entry 1 is '-2'"),
        (("--dwell", "0"), "--dwell is 0"),
        (("--noise", "-1"), "--noise is -1"),
        (("--noise", "nan"), "--noise is nan"),
        (("--map-error", "-0.1"), "--map-error is -0.1"),
        (("--interval", "0"), "--interval is 0"),
        (("--seed", "-1"), "--seed is -1"),
        (("--engine", "magic"), "--engine is magic, must be one of table, formula, events"),
        (("--rate", "1"), "--rate has no effect with --engine table; leave it out"),
        (("--text", "cnn"), "--text has no effect with --engine table"),
        (("--engine", "formula", "--rate", "1"), "--rate has no effect with --engine formula"),
        (("--engine", "formula", "--text", "tea"), "no data set 'tea', there are: gsm8k, sharegpt"),
        (("--engine", "formula", "--name", "x"), "no formula 'x', there are: llama8b_h100_eagle3"),
        (
            ("--engine", "formula", "--policy", "static:4"),
            "static:4: K must be one of the table's 0, 1, 2, 3",
        ),
        (("--engine", "formula", "--load", "9999"), "must be a whole number from 1 to 1024"),
        (("--engine", "events", "--rate", "1", "--load", "1"), "--load and --rate both set what arrives"),
        (("--latency-limit", "9ms"), "--latency-limit has no effect with --engine table; leave it out"),
        (("--engine", "formula", "--latency-limit", "9ms"), "--latency-limit has no effect with --engine"),
        (("--engine", "events", "--latency-limit", "9"), "must be a time from 1ms to 10m, such as 50ms"),
        (("--engine", "events", "--latency-limit", "1h"), "--latency-limit is 1h, must be a time"),
        (("--objective", "latency"), "--objective is latency, must be one of Goodput, Latency"),
        (("--engine", "events", "--rate", "1,inf"), "--rate: entry 1 is 'inf'"),
        (("--engine", "events", "--idle-tax", "nan"), "--idle-tax is nan, must be at least 0"),
        (
            ("--engine", "events", "--rate", "0.0001", "--dwell", "5"),
            "nothing was answered in the phase gsm8k",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(arguments: tuple[str, ...], complaint: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert complaint in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("rows", "cell"),
    [
        ([[50, 90], [300]], "tokens_per_second[1][1] is missing"),
        ([[50, 90], [300, -1]], "tokens_per_second[1][1] is -1"),
        ([[50, float("nan")], [300, 1]], "tokens_per_second[0][1]"),
    ],
)
def test_a_bad_cell_of_a_users_file_is_named(tmp_path: Path, rows: list[list[float]], cell: str) -> None:
    path = tmp_path / "tables.json"
    path.write_text(a_file(tokens_per_second=rows), encoding="utf-8")
    result = simulate(tables=path)
    assert result.exit_code == 2
    assert cell in result.output


def test_an_unmeasured_load_is_reported_with_the_measured_ones() -> None:
    result = simulate("--name", "a40_7b", "--policy", "static:0", "--load", "1,256", "--dwell", "60")
    assert result.exit_code == 0
    assert "Note: table a40_7b was measured at 1 to 32 streams; extrapolated: 256" in result.stderr
    assert "Note" not in simulate("--name", "a40_7b", "--policy", "static:0", "--load", "1,32").stderr


def test_a_formula_replays_texts_in_turn() -> None:
    words = ("--load", "64,64,64", "--text", "cnn,instructcoder", "--dwell", "20", "--policy", "static:5")
    found = json.loads(simulate("--engine", "formula", *words, "--json").stdout)
    (row,) = found["results"]
    hard, easy, hard_again = (phase["goodput"] for phase in row["phases"])
    assert easy > 1.05 * hard
    assert hard_again == pytest.approx(hard, rel=0.05)
    assert (row["table"], found["setting"]["text"]) == ("llama8b_h100_eagle3", ["cnn", "instructcoder"])


def test_k0_beside_a_drafter_costs_its_tax() -> None:
    words = ("--engine", "formula", "--load", "4", "--dwell", "130", "--policy", "static:0", "--json")
    (row,) = json.loads(simulate(*words, "--idle-tax", "0.25").stdout)["results"]
    assert row["worst_loss_against_no_speculation"] == pytest.approx(0.2, abs=0.01)


def test_engines_answer_what_arrives_event_by_event() -> None:
    words = ("--rate", "2,4", "--output-tokens", "50", "--dwell", "20", "--policy", "static:0,static:3")
    plain, drafting = json.loads(simulate("--engine", "events", *words, "--json").stdout)["results"]
    assert [phase["label"] for phase in plain["phases"]] == ["gsm8k, 2 requests/s", "gsm8k, 4 requests/s"]
    assert drafting["mean_goodput"] > plain["mean_goodput"]


def test_the_tuner_keeps_a_limit_of_the_pause_that_a_long_draft_breaks() -> None:
    words = ("--engine", "events", "--load", "16", "--dwell", "90", "--latency-limit", "16ms")
    result = simulate(*words, "--policy", "outrider,static:5", "--json")
    tuned, longest = (row["under_latency_limit"] for row in json.loads(result.stdout)["results"])
    assert tuned["broken"] == 0
    assert longest["broken"] == 1
    assert json.loads(result.stdout)["setting"]["latency_limit"] == pytest.approx(0.016)
    head, row = simulate(*words, "--policy", "static:5").stdout.splitlines()
    assert head.split()[-2:] == ["broken", "within"]
    assert row.split()[-4:-2] == ["100.0", "%"]


def test_with_objective_latency_the_tuner_drafts_less() -> None:
    words = ("--engine", "events", "--load", "16", "--dwell", "90", "--json")
    plain, short = (
        json.loads(simulate(*words, *more).stdout)["results"][0] for more in ((), ("--objective", "Latency"))
    )
    assert short["phases"][0]["final_k"] <= plain["phases"][0]["final_k"]
    assert short["mean_goodput"] != plain["mean_goodput"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "formulas.json: "),
        ('{"tables": []}', "has no formulas"),
        ('{"formulas": [{}]}', "formulas[0].name is missing"),
        ('{"formulas": [{"name": "x"}]}', "formula x: step_seconds must be an expression"),
    ],
)
def test_a_file_without_a_usable_formula_is_refused_by_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "formulas.json"
    path.write_text(text)
    result = simulate("--engine", "formula", tables=path)
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert told in result.output


def test_a_file_that_is_not_there_is_named() -> None:
    result = simulate(tables=Path("nowhere.json"))
    assert result.exit_code == 2
    assert "nowhere.json" in result.output
