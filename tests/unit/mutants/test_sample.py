"""Which mutants are made, and which of them are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example

from tests.mutants.operators import OWN
from tests.mutants.sample import mutants, sample
from tests.mutants.targets import TARGETS

GUARD = """
@in_(STEP)
def guard(seen: Seen | None, limit: float) -> Veto | None:
    if seen.usage < limit:
        return None
    tell(seen)
    return Veto(f"{100 * seen.usage} % full")
"""
EXAMPLES = [(name, example) for name, operator in OWN.items() for example in operator.examples()]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_own_operators_do_as_their_examples(name: str, example: Example) -> None:
    changed = mutate_code(example.pre_mutation_code, OWN[name], example.occurrence)
    assert changed == example.post_mutation_code


def test_a_guard_is_changed_where_it_guards() -> None:
    found = {(mutant.line, mutant.operator) for mutant in mutants(GUARD)}
    assert {(2, "RemoveDecorator"), (4, "NeverHolds"), (4, "AddNot"), (6, "NotCalled")} <= found
    assert (4, "ReplaceComparisonOperator_Lt_LtE") in found


def test_annotations_and_the_words_of_messages_stay() -> None:
    assert {mutant.line for mutant in mutants(GUARD)} == {2, 4, 6}


def test_no_two_mutants_of_a_sample_are_at_one_place() -> None:
    chosen = sample(GUARD, 100, "1")
    assert len({(mutant.line, mutant.column) for mutant in chosen}) == len(chosen)


def test_a_sample_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert sample(GUARD, 3, "1") == sample(GUARD, 3, "1") != sample(GUARD, 3, "2")


@pytest.mark.parametrize("file", TARGETS)
def test_every_target_exists_and_has_tests(file: str) -> None:
    assert Path(file).is_file()
    assert all(Path(name).exists() for name in TARGETS[file].split() if name.startswith("tests/"))
