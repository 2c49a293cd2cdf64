"""The simulator meets the same engines, texts and loads as a run on stand-ins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from outrider.tuning.policy import Policy
from outrider_twin.acceptance import Curve
from outrider_twin.description import shipped
from outrider_twin.draws import accepted, key_of
from outrider_twin.settings import Settings as TwinSettings
from outrider_twin.step_time import Load
from tests.bench.engine.figures import ArmFigures, Interval
from tests.bench.engine.knowledge import steps_of
from tests.bench.engine.plan import Settings
from tests.bench.engine.prediction import (
    AWAY_STEPS,
    Apart,
    Prediction,
    apart,
    away_seconds,
    predict,
)
from tests.bench.engine.stand_in import stand_in
from tests.unit.bench_engine.factories import settings

TEXTS = ("gsm8k", "cnn")
LAW = Policy((0, 1, 3), 64)
PROMPT_TOKENS, NEW_TOKENS = 110, 14
"""Of the load client's numbered prompts; those beyond the cached blocks."""


def twin(name: str) -> TwinSettings:
    return stand_in(yaml.safe_load(Path("examples/twin-h100.yaml").read_text()), name).settings


def a_run(trace: str, *, pods: int = 1, slow_pod: float = 1.0) -> Settings:
    return replace(settings(trace, texts=TEXTS), pods=pods, slow_pod=slow_pod)


@pytest.mark.parametrize("drafter", [True, False], ids=["drafter", "plain"])
@pytest.mark.parametrize("name", shipped())
def test_a_step_takes_as_long_as_in_the_stand_in(name: str, drafter: bool) -> None:
    told = twin(name)
    steps = steps_of(told) if drafter else steps_of(told).without_drafter()
    timing = told.description().timing(drafter=drafter)
    for batch in (1, 8, 40):
        for k in (0, 1, 3) if drafter else (0,):
            for prompt in (0, 50):
                load = Load(k, batch, batch, batch * (1 + k) + prompt, prompt, 200 * batch)
                own = steps.seconds(batch, k, 200.0 * batch, prompt)
                assert own == pytest.approx(timing.seconds(load)), (batch, k, prompt)


def stepped(told: TwinSettings, text: str, *, streams: int, k: int, max_tokens: int, seconds: float) -> float:
    """Tokens per second of a closed load, step by step, by the stand-in's own times and draws."""
    timing, curve = told.description().timing(drafter=True), told.description().curves()[text]
    now, tokens, number = 0.0, 0, 0
    said: list[int] = [0] * streams
    keys = [0] * streams
    back = [0.0] * streams
    while now < seconds:
        prompts = 0
        gained = 0
        for stream in range(streams):
            if said[stream] == 0 and now < back[stream]:
                continue
            if said[stream] == 0:
                number += 1
                keys[stream] = key_of("text", number)
                prompts += NEW_TOKENS - 1
                said[stream], more = 1, 1
            else:
                more = _more(keys[stream], said[stream], k, curve, max_tokens)
                said[stream] += more
            gained += more
        here = [one for one in said if one > 0]
        first = sum(one == 1 for one in here)
        computed = (len(here) - first) * (1 + k) + first + prompts
        kv = sum(PROMPT_TOKENS + one for one in here)
        now += timing.seconds(Load(k, len(here), len(here), computed, prompts, kv))
        step = timing.seconds(Load(k, len(here), len(here), len(here) * (1 + k), 0, kv))
        tokens += gained
        for stream in range(streams):
            if said[stream] >= max_tokens:
                said[stream], back[stream] = 0, now + away_seconds(streams) + AWAY_STEPS * step
    return tokens / now


def _more(key: int, said: int, k: int, curve: Curve, most: int) -> int:
    return min(most - said, accepted(key, said, k, curve.at) + 1)


@pytest.mark.parametrize(("streams", "k"), [(8, 0), (8, 2), (32, 1), (32, 5)])
def test_the_prediction_is_what_the_stand_in_does_step_by_step(streams: int, k: int) -> None:
    told, run = twin("h100_8b"), replace(a_run(f"{streams}:60:gsm8k"), candidates=(0, k or 1))
    (found,) = predict(run, told, Policy(run.candidates, 64), [str(k)])
    own = stepped(told, "gsm8k", streams=streams, k=k, max_tokens=run.max_tokens, seconds=60.0)
    assert found.tokens_per_second == pytest.approx(own, rel=0.015)


def test_the_best_k_of_each_load_has_no_regret_and_the_tax_shows_at_k_0() -> None:
    found = {one.arm: one for one in predict(a_run("8:60:cnn"), twin("h100_8b"), LAW, ["none", "0", "1"])}
    assert found["1"].regret_whole == pytest.approx(0.0, abs=0.003)
    assert found["none"].tokens_per_second / found["0"].tokens_per_second == pytest.approx(1.03, abs=0.003)


def an_arm(rate: float, regret: float) -> ArmFigures:
    missing = dict.fromkeys(ArmFigures.model_fields)
    whole = Interval(value=regret, low=regret, high=regret)
    figures: dict[str, Any] = {
        **missing,
        "arm": "outrider",
        "tokens_per_second": Interval(value=rate, low=rate, high=rate),
        "phases": [],
        "regret_whole": whole,
    }
    return ArmFigures(**figures)


def test_figures_that_are_more_than_a_point_apart_are_marked() -> None:
    predicted = Prediction(arm="outrider", tokens_per_second=100.0, regret_whole=0.02, regret_settled=0.01)
    found = apart(an_arm(100.9, 0.04), predicted)
    assert found.tokens_per_second == pytest.approx(0.009)
    assert found.regret_whole == pytest.approx(0.02)
    assert found.regret_settled is None
    assert [found.mark(name) for name in Apart.model_fields] == ["", "!", ""]
