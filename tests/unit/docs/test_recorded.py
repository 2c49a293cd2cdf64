"""What commands printed of one model in a cluster is what they print today of the state that it was in.

`recorded/twin.json` is what ``outrider explain --json`` printed then for a simulated H100, with the names and
words of today's version; every number is of that run. `bench.json` is
the slices that ``outrider bench`` wrote; `verify.json` is what ``outrider verify --json`` said of a model
that computes. What a sweep measured stands in its own lines of progress.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.bench import result, sweep
from outrider.bench.arms import Arm
from outrider.bench.guidellm import Slice
from outrider.cli.explain.explanation import explanation
from outrider.cli.explain.history import lines_of, past
from outrider.cli.status.findings import on_call
from outrider.cli.status.screen import screen_of_one
from outrider.tuning.decision import BinEstimates, Estimate
from outrider.verify import result as verified
from outrider.verify.greedy import Comparison, Difference
from outrider.verify.sampling import PositionTest
from tests.unit.cli.kit import printed
from tests.unit.controller.factories import a_raw_model
from tests.unit.docs.transcripts import BENCH, LEFT_OUT, SWEEP, VERIFY, of, parts

FOLDER = Path(__file__).parent / "recorded"
MEASURED = datetime(2026, 11, 23, 14, 33, 57, tzinfo=UTC)
"""When the speedup in `twin.json` was."""


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def twin(status: dict[str, Any] | None = None) -> dict[str, Any]:
    raw = a_raw_model("twin", status=status or recorded("twin")["status"])
    raw["metadata"]["namespace"] = "trial"
    return raw


def after(seconds: float) -> datetime:
    return MEASURED + timedelta(seconds=seconds)


def lines(text: str) -> str:
    """Without the blanks to the right of a table's title."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def screen(raw: dict[str, Any], now: datetime) -> str:
    return printed(screen_of_one(on_call(raw, now), now), width=400)


def assert_has_parts(whole: str, said: str) -> None:
    """said: with lines that are left out."""
    rest = whole
    for part in parts(said):
        before, found, rest = rest.partition(part)
        assert found, f"not printed, or not in this order: {part}"
        assert before == "" or (before.endswith("\n") and LEFT_OUT in said)


def estimates() -> dict[str, BinEstimates]:
    return {
        found["label"]: BinEstimates(
            **{**found, "estimates": tuple(Estimate(**k) for k in found["estimates"])}
        )
        for found in recorded("twin")["estimates"]
    }


def test_explain_shows_the_model_as_the_page_does() -> None:
    (said,) = of("outrider explain twin -n trial")
    model = SpeculativeModel.of_stored(twin())
    assert_has_parts(lines(printed(explanation(model, estimates(), now=after(3)), width=400)), said)


def test_explain_prints_the_decision_of_a_time_as_the_page_does() -> None:
    (said,) = of("outrider explain twin -n trial --at 30s")
    decisions = SpeculativeModel.of_stored(twin()).status.decisions
    then = datetime(2026, 11, 23, 14, 33, 31, 900_000, tzinfo=UTC)
    assert "".join(f"{line}\n" for line in lines_of(past(decisions, then), "trial/twin")) == said


def test_status_is_shown_by_kubectl_as_the_page_does() -> None:
    (said,) = of("kubectl speculative status twin -n trial")
    assert screen(twin(), after(10)) == said


def test_status_is_watched_from_before_the_first_load_on_as_the_page_does() -> None:
    (said,) = of("outrider status twin -n trial -w")
    status = recorded("twin")["status"]
    speculation = {
        **{key: status["speculation"][key] for key in ("state", "simulated", "appliedReplicas")},
        "scheduleSummary": "8:3,16:1,*:0",
    }
    before = {**status, "decisions": [], "speculation": speculation}
    assert parts(said) == [screen(twin(before), after(-57)), screen(twin(), after(1))]


@pytest.mark.parametrize("said", of("outrider verify twin -n trial --yes"))
def test_verify_refuses_a_stand_in_in_the_words_of_the_page(said: str) -> None:
    source = Path("operator/outrider/cli/verify/driving.py")
    _, words = said.split(" twin ")
    assert said.startswith("outrider verify: the engines of twin ")
    assert words.strip() in (Path(__file__).parents[3] / source).read_text()


def differences(found: Sequence[Mapping[str, Any]]) -> list[Difference]:
    return [Difference(**{**each, "comparison": Comparison(each["comparison"])}) for each in found]


def test_verify_prints_what_the_page_shows() -> None:
    (said,) = of(VERIFY)
    found = recorded("verify")
    told = verified.text_of(
        verified.Result(
            namespace=found["namespace"],
            name=found["name"],
            k=found["k"],
            tokens=32,
            tie=found["tie"],
            greedy=differences(found["greedy"]),
            again=differences(found["again"]),
            sampled=[PositionTest(**each) for each in found["sampled"]],
        )
    )
    whole = "".join(f"{line}\n" for line in told)
    assert said.endswith(whole)
    assert "Verdict: " in whole


def test_bench_prints_what_the_page_shows() -> None:
    (said,) = of(BENCH)
    found = recorded("bench")
    slices = {Arm(arm["k"]): [Slice(**each) for each in arm["slices"]] for arm in found["arms"]}
    told = result.text_of(result.Result(result.Setting(**found["setting"]), slices))
    shown = parts(said)[-1].split("\n", 1)[1]
    assert "".join(f"{line}\n" for line in told).startswith(shown)
    assert "Verdict: " in shown


def test_sweep_prints_what_the_page_shows() -> None:
    (said,) = of(SWEEP)
    rates: dict[sweep.Cell, tuple[float, ...]] = {}
    for streams, k, rate in re.findall(r"^round \d of 2: (\d+) streams, K=(\d): (\d+) tokens/s$", said, re.M):
        cell = sweep.Cell(int(streams), int(k))
        rates[cell] = (*rates.get(cell, ()), float(rate))
    told = "".join(f"{line}\n" for line in sweep.text_of(sweep.Sweep("trial", "twin", 3.0, rates, "h100_8b")))
    shown = said[said.index("trial/twin") :]
    number = re.compile(r"\d+")
    assert number.sub("#", shown) == number.sub("#", told)
    # Progress is rounded: half a token per second comes to six in an interval over two rounds.
    assert list(map(int, number.findall(shown))) == pytest.approx(list(map(int, number.findall(told))), abs=7)
