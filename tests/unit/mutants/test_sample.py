"""Which mutants are made, and which of them are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.sample import mutants
from tests.mutants.targets import TARGETS

GUARD = """
@in_(STEP)
def guard(seen: Seen | None, limit: float) -> Veto | None:
    if seen.usage < limit:
        return None
    tell(seen)
    return Veto(f"{100 * seen.usage} % full")
"""


def test_a_guard_is_changed_where_it_guards() -> None:
    found = {(mutant.line, mutant.operator) for mutant in mutants(GUARD)}
    assert {(2, "RemoveDecorator"), (4, "NeverHolds"), (4, "AddNot"), (6, "NotCalled")} <= found
    assert (4, "ReplaceComparisonOperator_Lt_LtE") in found


@pytest.mark.parametrize("file", TARGETS)
def test_every_target_exists_and_has_tests(file: str) -> None:
    assert Path(file).is_file()
    assert all(Path(name).exists() for name in TARGETS[file].split() if name.startswith("tests/"))
