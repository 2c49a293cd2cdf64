"""Reading `formulas[]` of a file: step times as expressions, and acceptance by data set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outrider.performance.step_time import StepTime, read_formula
from outrider.performance.tables_file import TableError


@dataclass(frozen=True)
class Formula:
    """One entry. acceptance: of position j, given that all before it were accepted, by data set."""

    name: str
    step: StepTime
    acceptance: Mapping[str, tuple[float, ...]]


def read_formulas(path: Path) -> dict[str, Formula]:
    """Every formula of a file, by name.

    Raises:
        TableError: not readable, not JSON, without a formula, or one that cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise TableError(f"{path}: {error}") from error
    entries = found.get("formulas") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries:
        raise TableError(f"{path} has no formulas; docs/guide/simulate.md says how one is written")
    formulas = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise TableError(f"{path}: formulas[{index}].name is missing")
        try:
            step, acceptance = read_formula(entry)
        except TableError as error:
            raise TableError(f"{path}: {error}") from error
        if not acceptance:
            raise TableError(f"{path}: formula {entry['name']}: survival has no data set")
        formulas[entry["name"]] = Formula(entry["name"], step, acceptance)
    return formulas
