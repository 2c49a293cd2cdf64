"""Each mistake of `mistakes.md` is answered as the page says."""

from __future__ import annotations

import pytest

from outrider.cli.common.output import ExitCode
from tests.unit.cli.mistakes import Mistake, answered, mistakes


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.name)
def test_a_mistake_is_answered_with_what_to_write(mistake: Mistake) -> None:
    hint = "if the change is meant: `python -m tests.unit.cli.mistakes --write`, then read the diff"
    assert answered(mistake) == (ExitCode.CANNOT, mistake.answer), hint


def test_there_are_at_least_forty_and_each_has_a_name_of_its_own() -> None:
    names = [mistake.name for mistake in mistakes()]
    assert len(names) >= 40
    assert len(set(names)) == len(names)
