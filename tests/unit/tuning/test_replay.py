"""The law on an engine that lives on measured throughputs, with noise."""

from __future__ import annotations

from statistics import mean

import pytest

from outrider.tuning.decision import DecisionReason
from tests.unit.tuning.factories import CANDIDATES, CODE, Phase, Tick, replay, true_goodput

SEEDS = range(20)
STEPS = (Phase(1), Phase(8), Phase(32), Phase(2))
PROSE = {
    b: tuple(g * x for g, x in zip(row, (1, 0.8, 0.62, 0.55, 0.4), strict=True)) for b, row in CODE.items()
}


def final_regret(ticks: list[Tick], index: int, phase: Phase) -> float:
    """Of the K that the last decision of the phase wants, against the best one."""
    last = next(t for t in reversed(ticks) if t.phase == index)
    k = last.decision.state.schedule.k_at(phase.streams)
    best = max(true_goodput(phase.streams, c, phase.table) for c in CANDIDATES)
    return 1 - true_goodput(phase.streams, k, phase.table) / best


@pytest.mark.parametrize("noise", [0.03, 0.05, 0.07])
def test_every_phase_ends_within_five_percent_of_the_best_k_on_average(noise: float) -> None:
    runs = [list(replay(STEPS, seed=seed, noise=noise)) for seed in SEEDS]
    for index, phase in enumerate(STEPS):
        assert mean(final_regret(ticks, index, phase) for ticks in runs) <= 0.05


def test_a_new_batch_size_is_settled_within_28_seconds() -> None:
    for seed in SEEDS:
        settled = [t for t in replay(STEPS, seed=seed) if t.decision.reason is DecisionReason.CALIBRATED]
        assert [t.phase for t in settled] == [0, 1, 2, 3]
        assert all(t.into_phase <= 28 for t in settled)


def test_a_known_batch_size_is_not_calibrated_again() -> None:
    again = (*STEPS, *STEPS)
    for seed in SEEDS[:5]:
        late = [t for t in replay(again, seed=seed) if t.phase >= len(STEPS)]
        assert not [t for t in late if t.decision.reason is DecisionReason.CALIBRATION]


def test_code_then_prose_ends_on_the_k_of_prose() -> None:
    phases = (Phase(1, seconds=100), Phase(1, seconds=60, table=PROSE, acceptance=0.33))
    regrets = [final_regret(list(replay(phases, seed=seed)), 1, phases[1]) for seed in SEEDS]
    assert mean(regrets) <= 0.05


def test_steady_load_means_few_changes_and_few_probes() -> None:
    for seed in SEEDS[:3]:
        steady = [t for t in replay([Phase(32, seconds=3600)], seed=seed) if t.at > 120]
        reasons = [t.decision.reason for t in steady]
        chosen = (DecisionReason.BETTER_K, DecisionReason.CALIBRATED, DecisionReason.WORSE_THAN_BEFORE)
        assert sum(reason in chosen for reason in reasons) <= 6
        assert 0 < reasons.count(DecisionReason.PROBE) <= 0.03 * len(steady)
