"""The numbers of the law: each is known by its name alone, whatever part it stands in."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass

import pytest

from outrider.tuning.policy import Policy
from tests.unit.tuning.factories import POLICY


def test_no_number_stands_in_two_parts() -> None:
    parts = (getattr(POLICY, part.name) for part in fields(POLICY))
    names = Counter(number.name for part in parts if is_dataclass(part) for number in fields(part))
    assert names == Counter(POLICY.numbers.keys())


@pytest.mark.parametrize("name", POLICY.numbers)
def test_a_number_is_changed_by_its_name_and_no_other_is(name: str) -> None:
    changed = POLICY.changed(**{name: 0.123})
    assert changed.numbers == {**POLICY.numbers, name: 0.123}
    assert (changed.candidates, changed.bins) == (POLICY.candidates, POLICY.bins)


def test_a_change_lands_in_the_part_that_the_law_reads() -> None:
    assert POLICY.changed(min_gain=0.5, kv_usage_limit=0.7).choice.min_gain == 0.5
    assert POLICY.changed(min_gain=0.5, kv_usage_limit=0.7).safety.kv_usage_limit == 0.7


@pytest.mark.parametrize("name", ["min_gian", "choice", "max_num_seqs"])
def test_a_name_that_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"no number of the policy: {name}"):
        POLICY.changed(**{name: 1.0})


def test_mode_observe_tries_nothing() -> None:
    quiet = Policy((0, 3), 8).observing()
    assert (quiet.exploration.calibration_seconds, quiet.exploration.recalibration_seconds) == (0.0, 0.0)
    assert (quiet.exploration.probe_share, quiet.relaunch.canary_share) == (0.0, 0.0)
