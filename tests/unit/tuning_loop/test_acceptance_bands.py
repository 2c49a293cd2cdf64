"""`DrafterHealthy`: from counters of drafted and accepted tokens to the condition and its advice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from outrider.api.conditions import Condition, ConditionStatus, ConditionType, ConditionUpdate
from outrider.api.reasons import DrafterReason
from outrider.api.tuning import TuningMode
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.drafter_health import Answers, drafter_health
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey, PodSeries
from outrider.tuning.decision import Acceptance
from outrider.tuning.estimate.followed import Followed
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.reasons.tuner_scenes import LONG_ANSWERS, MODEL, an_outcome
from tests.unit.telemetry.factories import Counters, a_series
from tests.unit.tuning.factories import with_parts
from tests.unit.tuning.launching import a_decision
from tests.unit.tuning_loop.factories import NOW, World, a_model, step

TICK = 10
TEXT_SEARCH = replace(MODEL, searches_text=True)


def under_load(*, each: float, k: int = 3, seconds: int = 120) -> PodSeries:
    """Of a stock engine that accepts each draft token with this probability, given the one before it."""
    counters, scrapes = Counters(), list[tuple[float, Counters]]()
    for i in range(seconds // 5):
        scrapes.append((NOW + 5 * i + 1, counters))
        counters = counters.ran(k=k, each=each)
    return a_series(*scrapes)


async def health(engines: EngineClient, series: PodSeries, *, ticks: int = 4) -> dict[str, str] | None:
    """The condition after some ticks."""
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)], series={PodKey("default", "engine-0"): series})
        with world.loop(engines) as loop:
            for _ in range(ticks):
                await step(loop)
                world.now += TICK
        return world.condition("DrafterHealthy")


@pytest.mark.parametrize(
    ("each", "status", "reason"),
    [
        (0.95, "True", DrafterReason.EXCELLENT),
        (0.81, "True", DrafterReason.EXCELLENT),
        (0.79, "True", DrafterReason.GOOD),
        (0.61, "True", DrafterReason.GOOD),
        (0.59, "True", DrafterReason.MARGINAL),
        (0.41, "True", DrafterReason.MARGINAL),
        (0.39, "False", DrafterReason.POOR),
        (0.08, "False", DrafterReason.POOR),
        (0.02, "False", DrafterReason.NOTHING_ACCEPTED),
    ],
)
async def test_acceptance_of_the_first_token_falls_into_a_band(
    engines: EngineClient, each: float, status: str, reason: DrafterReason
) -> None:
    found = await health(engines, under_load(each=each))
    assert found is not None
    assert (found["status"], found["reason"]) == (status, reason)
    assert f"{100 * each:.0f} % of the first draft tokens" in found["message"]


@pytest.mark.parametrize("k", [1, 3, 5])
async def test_a_drafter_is_in_the_same_band_whatever_k_is(engines: EngineClient, k: int) -> None:
    # With K=5 this drafter has 41 % of all drafted tokens accepted, as a sound EAGLE-3 head has.
    found = await health(engines, under_load(each=0.67, k=k))
    assert found is not None
    assert found["reason"] == DrafterReason.GOOD


async def test_the_share_of_all_drafted_tokens_is_shown_as_information(engines: EngineClient) -> None:
    found = await health(engines, under_load(each=0.67, k=5))
    assert found is not None
    assert "35 % of all; a drafted step gave 2.8 tokens" in found["message"]


async def test_nothing_is_said_where_nothing_was_drafted(engines: EngineClient) -> None:
    idle = a_series(*((NOW + 5 * i + 1, Counters()) for i in range(24)))
    assert await health(engines, idle) is None


def judged(
    first: float | None,
    *,
    drafts: float = 1000,
    history: tuple[float, float] = (0.0, 0.0),
    last: DrafterReason | None = None,
    model: TunedModel = MODEL,
    answers: Answers = LONG_ANSWERS,
    by_position: bool = True,
    chosen_by: str = "engine",
) -> ConditionUpdate | None:
    """What is said of one minute. first: None where nothing was drafted. history: accepted, drafted.

    by_position: whether the tuner counted drafts by position. It does not count single steps that draft.
    chosen_by: what chooses K at each step.
    """
    positions = (first,) if by_position and first is not None else ()
    acceptance = None if first is None else Acceptance(first, 1 + first, positions, drafts)
    decision = a_decision()
    accepted, drafted = history
    followed = Followed(0, (0, 3), (1000.0, 0.0)) if chosen_by == "engine" else None
    history_known = {"first_accepted": accepted, "first_drafted": drafted, "followed": followed}
    state = with_parts(decision.state, **history_known)
    known = None if model.mode is TuningMode.OFF else replace(decision, state=state)
    before = None if last is None else condition(last)
    return drafter_health(an_outcome(decision=known, model=model), acceptance, answers, before)


def condition(reason: DrafterReason) -> Condition:
    return Condition(
        type=ConditionType.DRAFTER_HEALTHY,
        status=ConditionStatus.FALSE,
        reason=reason,
        last_transition_time=datetime(2026, 11, 25, tzinfo=UTC),
    )


def reason(said: ConditionUpdate | None) -> object:
    return None if said is None else said.reason


GOOD_HISTORY = (7000.0, 10000.0)


@pytest.mark.parametrize("by_position", [True, False])
def test_drafts_that_fail_where_the_engine_rests_at_k0_are_a_collapse(by_position: bool) -> None:
    assert reason(judged(0.02, drafts=400, history=GOOD_HISTORY, by_position=by_position)) == (
        DrafterReason.COLLAPSED
    )


def test_a_collapse_at_k0_ends_when_enough_single_steps_agree_with_the_history() -> None:
    after = partial(judged, 0.3, history=GOOD_HISTORY, by_position=False, last=DrafterReason.COLLAPSED)
    assert reason(after(drafts=60)) == DrafterReason.POOR
    assert reason(after(drafts=5)) == DrafterReason.COLLAPSED


def test_drafts_of_before_do_not_end_a_collapse_where_engines_draft_nothing_at_k0() -> None:
    after = partial(judged, 0.3, history=GOOD_HISTORY, by_position=False, last=DrafterReason.COLLAPSED)
    assert reason(after(drafts=60, chosen_by="operator")) == DrafterReason.COLLAPSED


def test_a_few_drafts_that_fail_may_be_chance() -> None:
    assert reason(judged(0.0, drafts=3, history=GOOD_HISTORY)) == DrafterReason.POOR


def test_drafts_that_are_accepted_less_often_than_before_are_no_collapse() -> None:
    assert reason(judged(0.3, history=GOOD_HISTORY)) == DrafterReason.POOR


def test_a_drafter_that_never_fitted_is_broken_and_the_message_says_what_to_check() -> None:
    said = judged(0.01, history=(20, 2000))
    assert said is not None
    assert said.reason == DrafterReason.NOTHING_ACCEPTED
    assert "spec.speculation.drafter" in said.message


CONNECTED = replace(MODEL, moves_cache=True)


@pytest.mark.parametrize("first", [0.01, 0.3])
def test_drafts_that_are_lost_beside_a_kv_connector_name_it_as_a_cause(first: float) -> None:
    said = judged(first, history=(20, 2000), model=CONNECTED)
    assert said is not None
    assert "Some connectors do not move the drafter's part of the cache" in said.message


@pytest.mark.parametrize(
    ("first", "model"), [(0.7, CONNECTED), (0.01, MODEL), (0.01, replace(TEXT_SEARCH, moves_cache=True))]
)
def test_a_kv_connector_is_no_cause_of_sound_drafts_or_without_one(first: float, model: TunedModel) -> None:
    said = judged(first, history=(20, 2000), model=model)
    assert said is not None
    assert "connector" not in said.message


def test_a_drafter_that_fitted_before_is_not_of_another_model() -> None:
    assert reason(judged(0.01, history=(1400, 2000))) == DrafterReason.COLLAPSED


def test_a_handful_of_rejected_drafts_breaks_nothing() -> None:
    assert reason(judged(0.0, drafts=50, history=(0, 50))) == DrafterReason.POOR


def test_k_0_does_not_hide_a_broken_drafter() -> None:
    assert reason(judged(None, last=DrafterReason.NOTHING_ACCEPTED)) == DrafterReason.NOTHING_ACCEPTED


def test_a_new_drafter_that_fits_ends_it() -> None:
    said = judged(0.7, history=(700, 1000), last=DrafterReason.NOTHING_ACCEPTED)
    assert reason(said) == DrafterReason.GOOD


def test_a_search_of_the_text_that_finds_nothing_is_not_broken() -> None:
    assert reason(judged(0.01, history=(20, 2000), model=TEXT_SEARCH)) == DrafterReason.POOR


def test_without_a_tuner_the_condition_before_is_the_history() -> None:
    off = replace(MODEL, mode=TuningMode.OFF)
    assert reason(judged(0.01, model=off)) == DrafterReason.NOTHING_ACCEPTED
    assert reason(judged(0.01, model=off, last=DrafterReason.GOOD)) == DrafterReason.POOR


def test_short_answers_are_named_as_the_limit() -> None:
    said = judged(0.7, history=(700, 1000), answers=Answers(requests=20, tokens=600))
    assert said is not None
    assert "Answers have 30 tokens on average" in said.message
    long = judged(0.7, history=(700, 1000), answers=Answers(requests=20, tokens=2000))
    assert long is not None
    assert "Answers" not in long.message
