"""How sure a phase of the demo is."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from examples.demo.phases import Arm
from examples.demo.result import AcceptanceSample
from examples.demo.spread import Compared, blocks, overall, own_spreads, unknown
from outrider.bench.verdict import Interval
from tests.unit.demo.factories import a_stretch
from tests.unit.kit.factories import a_count


def test_blocks_cover_two_seconds_and_a_rest_is_left_out() -> None:
    counts = [a_count(time, tokens=tokens) for time, tokens in enumerate((10, 20, 30, 50, 7), start=1)]
    assert blocks(counts) == (15.0, 40.0)


def test_a_gain_is_a_ratio_with_an_interval_around_it() -> None:
    phase = Compared("code x1", {Arm.OUTRIDER: (118.0, 122.0, 120.0), Arm.NO_DRAFTS: (99.0, 101.0, 100.0)})
    gain = phase.gain(Arm.NO_DRAFTS)
    assert gain is not None
    assert gain.value == pytest.approx(1.2, abs=0.001)
    assert 1.1 < gain.low < gain.value < gain.high < 1.3


def test_noise_of_either_arm_widens_a_gain() -> None:
    steady, noisy = (99.0, 100.0, 101.0), (80.0, 100.0, 120.0)
    pairs = [(steady, steady), (steady, noisy), (noisy, noisy)]
    found = [Compared("x", {Arm.OUTRIDER: a, Arm.NO_DRAFTS: b}).gain(Arm.NO_DRAFTS) for a, b in pairs]
    widths = [gain.high / gain.low for gain in found if gain is not None]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


@pytest.mark.parametrize("few", [(), (100.0,), (100.0, 0.0)])
def test_without_two_blocks_of_tokens_there_is_no_gain(few: tuple[float, ...]) -> None:
    phase = Compared("x", {Arm.OUTRIDER: few, Arm.NO_DRAFTS: (100.0, 101.0)})
    assert phase.gain(Arm.NO_DRAFTS) is None
    assert overall([phase], Arm.NO_DRAFTS) is None


def test_the_gain_over_all_phases_is_a_geometric_mean_with_independent_margins() -> None:
    phases = [
        Compared("x", {Arm.OUTRIDER: (200.0, 210.0, 190.0), Arm.NO_DRAFTS: (100.0, 104.0, 96.0)}),
        Compared("y", {Arm.OUTRIDER: (50.0, 51.0, 49.0), Arm.NO_DRAFTS: (100.0, 101.0, 99.0)}),
    ]
    gains = [gain for phase in phases if (gain := phase.gain(Arm.NO_DRAFTS)) is not None]
    found = overall(phases, Arm.NO_DRAFTS)
    assert found is not None
    margins = [math.log(gain.high / gain.value) for gain in gains]
    assert found.value == pytest.approx(math.sqrt(gains[0].value * gains[1].value))
    assert math.log(found.high / found.value) == pytest.approx(math.hypot(*margins) / 2)
    assert math.log(found.value / found.low) == pytest.approx(math.hypot(*margins) / 2)


def test_phases_that_differ_widen_nothing_and_their_noise_does() -> None:
    steady = {Arm.OUTRIDER: (100.0, 100.0), Arm.NO_DRAFTS: (100.0, 100.0)}
    twice = {Arm.OUTRIDER: (200.0, 200.0), Arm.NO_DRAFTS: (100.0, 100.0)}
    noisy = {Arm.OUTRIDER: (90.0, 110.0), Arm.NO_DRAFTS: (100.0, 100.0)}
    differing = overall([Compared("x", steady), Compared("y", twice)], Arm.NO_DRAFTS)
    uneasy = overall([Compared("x", steady), Compared("y", noisy)], Arm.NO_DRAFTS)
    assert differing is not None
    assert uneasy is not None
    assert differing.high / differing.low == pytest.approx(1)
    assert uneasy.high / uneasy.low > 1.1


def test_the_interval_over_all_phases_holds_the_truth_in_at_least_19_of_20_runs() -> None:
    draw = random.Random(1)
    truths = [2.3, 1.4, 0.9, 1.1, 1.0, 0.7, 0.45, 1.2]
    truth = math.exp(statistics.fmean(map(math.log, truths)))

    def seen(rate: float, blocks: int) -> tuple[float, ...]:
        return tuple(rate * math.exp(draw.gauss(0, 0.2)) for _ in range(blocks))

    def held() -> bool:
        phases = [Compared("x", {Arm.OUTRIDER: seen(gain, 11), Arm.NO_DRAFTS: seen(1, 4)}) for gain in truths]
        found = overall(phases, Arm.NO_DRAFTS)
        assert found is not None
        return found.low <= truth <= found.high

    assert sum(held() for _ in range(400)) >= 380


def test_a_phase_without_a_gain_is_named() -> None:
    known = Compared("x", {Arm.OUTRIDER: (1.0, 1.0), Arm.NO_DRAFTS: (1.0, 1.0)})
    assert unknown([known, Compared("y", {Arm.OUTRIDER: (1.0, 1.0)})], Arm.NO_DRAFTS) == ["y"]


def samples(*found: tuple[float, float, float]) -> list[AcceptanceSample]:
    return [AcceptanceSample(time=time, rate=rate, drafted=drafted) for time, rate, drafted in found]


def acceptance_of(*found: tuple[float, float, float]) -> Interval | None:
    return own_spreads([a_stretch()], samples(*found))["code x1"].acceptance


def test_acceptance_is_that_of_all_drafts_together_with_an_interval_around_it() -> None:
    found = acceptance_of((1.0, 0.8, 100.0), (3.0, 0.7, 100.0), (5.0, 0.5, 400.0))
    assert found is not None
    assert found.value == pytest.approx(350 / 600)
    assert 0 <= found.low < found.value < found.high <= 1


def test_acceptance_that_does_not_vary_is_sure_however_many_drafts_a_block_has() -> None:
    found = acceptance_of((1.0, 0.6, 10.0), (3.0, 0.6, 500.0), (5.0, 0.6, 80.0))
    assert found == Interval(*[pytest.approx(0.6)] * 3)


def test_scrapes_within_one_block_have_no_interval() -> None:
    assert acceptance_of((0.5, 0.8, 100.0), (1.5, 0.6, 100.0)) is None


def test_outriders_own_rates_are_those_of_its_second_half_and_of_its_whole_phase() -> None:
    found = own_spreads([a_stretch(tokens=(50, 50, 60, 60, 90, 90, 110, 110))], [])["code x1"]
    assert found.second_half is not None
    assert found.whole_phase is not None
    assert (found.second_half.value, found.whole_phase.value) == (pytest.approx(100), pytest.approx(77.5))
    assert found.whole_phase.low < 77.5 < found.whole_phase.high
