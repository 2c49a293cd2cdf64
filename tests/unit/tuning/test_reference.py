"""docs/reference/tuning.md agrees with the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from outrider.api.reasons import DecisionReason
from outrider.tuning.policy import Choice, Estimation, Exploration, Relaunch, Safety

Part = Estimation | Choice | Exploration | Safety | Relaunch

PARTS: tuple[Part, ...] = (Estimation(), Choice(), Exploration(), Safety(), Relaunch())
PAGE = (Path(__file__).parents[3] / "docs/reference/tuning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", DecisionReason)
def test_every_reason_is_explained(reason: DecisionReason) -> None:
    assert f"| `{reason}` |" in PAGE, f"explain {reason} in docs/reference/tuning.md"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_part_of_the_policy_has_its_numbers_there_with_their_defaults(part: Part) -> None:
    _, _, rest = PAGE.partition(f"### {type(part).__name__}\n")
    rows = [line.split("|")[1:3] for line in rest.partition("\n#")[0].splitlines() if line.startswith("| `")]
    numbers = ((number.name, getattr(part, number.name)) for number in fields(part))
    assert rows == [[f" `{name}` ", f" {value} "] for name, value in numbers if value is not None]


def test_no_reason_is_explained_that_does_not_exist() -> None:
    rows = [
        line.split("|")[2].strip(" `")
        for line in PAGE.splitlines()
        if line.startswith(("| Hold", "| Ex", "| Roll"))
    ]
    assert sorted(rows) == sorted(DecisionReason)
