"""How sure a phase of the demo is."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from examples.demo.phases import TRACE, Arm, Durations, visits
from examples.demo.result import AcceptanceSample, ArmStretch
from examples.demo.spread import Compared, block_seconds, blocks, compared, overall, own_spreads
from outrider.bench.verdict import Interval
from tests.unit.demo.factories import BATCH_RATES, a_driven, a_result, a_stretch
from tests.unit.kit.factories import a_count


def test_blocks_cover_two_seconds_and_a_rest_is_left_out() -> None:
    counts = [a_count(time, tokens=tokens) for time, tokens in enumerate((10, 20, 30, 50, 7), start=1)]
    assert blocks(counts) == (15.0, 40.0)


def test_where_texts_take_turns_a_block_is_a_whole_period() -> None:
    counts = tuple(a_count(time, tokens=tokens) for time, tokens in enumerate(([300] * 4 + [100] * 4) * 2))
    driven = ArmStretch(streams=8, prompts="turns", counts=counts, arm=Arm.OUTRIDER, uncounted=0.0)
    assert block_seconds(driven) == 8.0
    assert blocks(driven.counted, block_seconds(driven)) == (200.0, 200.0)


def over_nothing(outrider: tuple[float, ...], held: tuple[float, ...]) -> Compared:
    """Of halves of rounds with K = 0 held in them."""
    return Compared("x", {}, {Arm.OUTRIDER: outrider, Arm.NO_DRAFTS: held})


def test_a_gain_is_a_ratio_with_an_interval_around_it() -> None:
    gain = over_nothing((118.0, 122.0, 120.0), (101.0, 99.0, 100.0)).gain(Arm.NO_DRAFTS)
    assert gain is not None
    assert gain.value == pytest.approx(1.2, abs=0.001)
    assert 1.1 < gain.low < gain.value < gain.high < 1.3


def test_noise_of_either_arm_widens_a_gain() -> None:
    steady, noisy = (100.0, 100.0, 100.0), (80.0, 100.0, 120.0)
    pairs = [(steady, steady), (steady, noisy), (noisy[::-1], noisy)]
    found = [over_nothing(*pair).gain(Arm.NO_DRAFTS) for pair in pairs]
    widths = [gain.high / gain.low for gain in found if gain is not None]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


def test_what_neighbours_have_alike_is_no_noise_of_a_gain() -> None:
    gain = over_nothing((160.0, 120.0, 80.0, 140.0), (80.0, 60.0, 40.0, 70.0)).gain(Arm.NO_DRAFTS)
    assert gain is not None
    assert (gain.low, gain.high) == pytest.approx((2, 2))


def test_each_slice_of_a_held_k_has_the_half_of_outriders_slice_on_its_side() -> None:
    driven = [
        a_stretch(tokens=(10,) * 4, arm=Arm.NO_DRAFTS, uncounted=2.0),
        a_stretch(tokens=(0, 0, 30, 30, 50, 50), start=4.0, uncounted=2.0),
        a_stretch(tokens=(20,) * 4, start=10.0, arm=Arm.NO_DRAFTS, uncounted=2.0),
    ]
    halves = a_phase(driven).halves
    assert halves == {Arm.NO_DRAFTS: (10.0, 20.0), Arm.OUTRIDER: (30.0, 50.0)}


def a_phase(driven: list[ArmStretch]) -> Compared:
    result = a_result()
    return compared(result.model_copy(update={"phases": result.phases[:1], "stretches": driven}))[0]


def on_a_machine_that_slows(by: float) -> Compared:
    """A phase in which the machine loses a share of its speed, evenly from the beginning to the end."""
    planned = [visit for visit in visits(Durations()) if visit.load == TRACE[0]]
    length, time, driven = sum(visit.seconds for visit in planned), 0.0, list[ArmStretch]()
    for visit in planned:
        speeds = [1 - by * (time + second + 0.5) / length for second in range(int(visit.seconds))]
        tokens = tuple(round(10_000 * BATCH_RATES[visit.arm] * speed) for speed in speeds)
        driven.append(a_driven(visit, tokens=tokens, start=time))
        time = driven[-1].end
    return a_phase(driven)


@pytest.mark.parametrize("by", [0.06, -0.06, 0.2])
@pytest.mark.parametrize(("held", "gain"), [(Arm.NO_DRAFTS, 1.6), (Arm.LONGEST_DRAFTS, 160 / 150)])
def test_a_steady_drift_of_the_machine_moves_no_gain(by: float, held: Arm, gain: float) -> None:
    found = on_a_machine_that_slows(by).gain(held)
    assert found is not None
    assert found.value == pytest.approx(gain, rel=0.001)
    assert found.low < gain < found.high


@pytest.mark.parametrize(("held", "gain"), [(Arm.NO_DRAFTS, 1.6), (Arm.LONGEST_DRAFTS, 160 / 150)])
def test_a_steady_drift_moves_the_rates_of_all_arms_alike(held: Arm, gain: float) -> None:
    phase = on_a_machine_that_slows(0.2)
    own, other = phase.rate(Arm.OUTRIDER), phase.rate(held)
    assert own is not None
    assert other is not None
    assert own.value / other.value == pytest.approx(gain, rel=0.001)


def test_the_gain_over_all_phases_is_a_geometric_mean_with_independent_margins() -> None:
    phases = [
        over_nothing((200.0, 210.0, 190.0), (100.0, 104.0, 97.0)),
        over_nothing((50.0, 51.0, 49.0), (100.0, 101.0, 99.0)),
    ]
    gains = [gain for phase in phases if (gain := phase.gain(Arm.NO_DRAFTS)) is not None]
    found = overall(phases, Arm.NO_DRAFTS)
    assert found is not None
    margins = [math.log(gain.high / gain.value) for gain in gains]
    assert found.value == pytest.approx(math.sqrt(gains[0].value * gains[1].value))
    assert math.log(found.high / found.value) == pytest.approx(math.hypot(*margins) / 2)
    assert math.log(found.value / found.low) == pytest.approx(math.hypot(*margins) / 2)


def test_phases_that_differ_widen_nothing_and_their_noise_does() -> None:
    steady, twice = ((rate, rate) for rate in (100.0, 200.0))
    one, two, noisy = (over_nothing(rates, steady) for rates in (steady, twice, (90.0, 110.0)))
    differing = overall([one, two], Arm.NO_DRAFTS)
    uneasy = overall([one, noisy], Arm.NO_DRAFTS)
    assert differing is not None
    assert uneasy is not None
    assert differing.high / differing.low == pytest.approx(1)
    assert uneasy.high / uneasy.low > 1.1


def test_the_interval_over_all_phases_holds_the_truth_in_at_least_19_of_20_runs() -> None:
    draw = random.Random(1)
    truths = [2.3, 1.4, 0.9, 1.1, 1.0, 0.7, 0.45, 1.2]
    truth = math.exp(statistics.fmean(map(math.log, truths)))

    def seen(rate: float) -> tuple[float, ...]:
        return tuple(rate * math.exp(draw.gauss(0, 0.2)) for _ in range(4))

    def held() -> bool:
        found = overall([over_nothing(seen(gain), seen(1)) for gain in truths], Arm.NO_DRAFTS)
        assert found is not None
        return found.low <= truth <= found.high

    assert sum(held() for _ in range(400)) >= 380


def samples(*found: tuple[float, float, float]) -> list[AcceptanceSample]:
    return [AcceptanceSample(time=time, rate=rate, drafted=drafted) for time, rate, drafted in found]


def acceptance_of(*found: tuple[float, float, float]) -> Interval | None:
    return own_spreads([a_stretch()], samples(*found))["code x1"].acceptance


def test_acceptance_is_that_of_all_drafts_together_with_an_interval_around_it() -> None:
    found = acceptance_of((1.0, 0.8, 100.0), (3.0, 0.7, 100.0), (5.0, 0.5, 400.0))
    assert found is not None
    assert found.value == pytest.approx(350 / 600)
    assert 0 <= found.low < found.value < found.high <= 1


def test_scrapes_of_all_parts_of_a_phase_are_in_its_acceptance() -> None:
    parts = [a_stretch(tokens=(1,) * 4), a_stretch(tokens=(1,) * 4, start=9.0)]
    found = own_spreads(parts, samples((1.0, 0.8, 100.0), (6.0, 0.1, 100.0), (10.0, 0.6, 100.0)))["code x1"]
    assert found.acceptance is not None
    assert found.acceptance.value == pytest.approx(0.7)
