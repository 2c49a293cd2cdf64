"""The form of a record, which every JSON file of docs/benchmarks has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "benchmarks"
RAW = ".raw.json"
TUNER = (
    "operator/outrider/tuning",
    "operator/outrider/performance",
    "operator/lab/outrider_lab",
    "engine_image/protocol/outrider_protocol",
)
"""What decides the figures of every simulation of the tuner."""
DEPLOYED = (
    "operator/outrider/tuning",
    "operator/outrider/performance",
    "operator/outrider/controller/tune",
    "operator/outrider/telemetry",
    "engine_image/outrider_engine",
    "engine_image/protocol/outrider_protocol",
    "engine_image/testing/twin/outrider_twin",
)
"""What decides the figures of the deployed operator on simulated engines."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Table(_Part):
    """A table as pages print it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @model_validator(mode="after")
    def _full_rows(self) -> Self:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"every row needs {len(self.columns)} cells")
        return self


class Record(_Part):
    """One measurement.

    shown: the kind of evidence, in the words of docs/coverage.md.
    interval: what brackets cover. limits: what weakens the figures; pages repeat it.
    depends: folders and files of the repository that decide the figures.
    older: those of them that changed after `commit`; `make records` writes it.
    raw: the result file beside the record; None where it was not kept, with the reason in raw_note.
    script: what makes tables and picture of the result file; None where people wrote them.
    versions: of what ran, by name.
    """

    name: str
    date: str
    commit: Annotated[str, Field(pattern="^[0-9a-f]{7,40}$")]
    command: str
    shown: str
    machine: str
    interval: str
    limits: str
    depends: Annotated[Sequence[str], Field(min_length=1)]
    older: Sequence[str] = ()
    versions: Mapping[str, str] = Field(default_factory=dict)
    script: str | None = None
    tables: Sequence[Table]
    figures: Mapping[str, float | str] = Field(default_factory=dict)
    raw: str | None
    raw_note: str = ""

    @property
    def path(self) -> Path:
        """Where it is."""
        return FOLDER / f"{self.name}.json"

    def write(self) -> None:
        """Make or replace its file; fields with their default are left out."""
        found = self.model_dump(mode="json", exclude_defaults=True) | {"raw": self.raw}
        self.path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def write_with(self, result: Mapping[str, Any]) -> None:
        """Make or replace its file, and the result file beside it."""
        self.write()
        text = json.dumps(result, separators=(",", ":")) + "\n"
        (FOLDER / f"{self.name}{RAW}").write_text(text, encoding="utf-8")


def percent(ratio: float) -> str:
    """A cell with one digit; never -0.0."""
    return f"{round(100 * ratio, 1) + 0.0:.1f}"


def percent_range(middle: float, low: float, high: float) -> str:
    """A cell with a ratio and its brackets, such as `1.0 [0.5, 2.0]`."""
    return f"{percent(middle)} [{percent(low)}, {percent(high)}]"


def percent_spread(ratios: Iterable[float]) -> str:
    """A cell with the mean of ratios, and the smallest and the largest; empty without any."""
    found = list(ratios)
    return percent_range(mean(found), min(found), max(found)) if found else ""


def records() -> dict[str, Record]:
    """All records by name, the oldest first.

    Raises:
        pydantic.ValidationError: a file has another form.
    """
    paths = [path for path in sorted(FOLDER.glob("*.json")) if not path.name.endswith(RAW)]
    return {path.stem: Record.model_validate_json(path.read_text(encoding="utf-8")) for path in paths}
