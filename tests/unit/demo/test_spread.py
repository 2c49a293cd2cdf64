"""How sure a phase of the demo is."""

from __future__ import annotations

import pytest

from examples.demo.phases import Arm
from examples.demo.spread import Compared, blocks, overall
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
