"""The outcome of a check, and its form on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine_image.testing.contract.expectations import EXPECTATIONS
from engine_image.testing.contract.forms import Finding, Verdict
from engine_image.testing.contract.matrix import differences
from engine_image.testing.contract.source import Source
from outrider_protocol.releases import parse_version

RESULT_FILE = Path(__file__).with_name("result.json")
NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one vLLM keeps the contract."""

    expectations: Mapping[str, str]
    """Text of an expectation -> its verdict, with what was found instead."""
    matrix_differences: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """Every expectation that does not hold, with its verdict, and every difference of the table."""
        good = (Verdict.OK.value, NOT_NEEDED)
        held = ((text, verdict) for text, verdict in self.expectations.items() if verdict not in good)
        return (*(f"{text}: {verdict}" for text, verdict in held), *self.matrix_differences)


@dataclass(frozen=True, slots=True)
class Result:
    """A check of several vLLM. ``date`` is that of the check, ISO 8601."""

    date: str
    versions: Mapping[str, Outcome] = field(default_factory=dict)

    def to_json(self) -> str:
        """The form in which it is kept."""
        versions = {
            name: {"expectations": dict(o.expectations), "matrixDifferences": list(o.matrix_differences)}
            for name, o in self.versions.items()
        }
        return json.dumps({"date": self.date, "versions": versions}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path = RESULT_FILE) -> Result:
        """The result that is kept.

        Raises:
            OSError, ValueError, KeyError: there is none, or it has another form.
        """
        value = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            value["date"],
            {
                name: Outcome(outcome["expectations"], tuple(outcome["matrixDifferences"]))
                for name, outcome in value["versions"].items()
            },
        )


def check(source: Source, version: str) -> Outcome:
    """Verify every expectation, and the plugin's table of methods, in one vLLM."""
    number = parse_version(version)
    verdicts = {
        expectation.form.text(): _spell(expectation.form.verify(source))
        if expectation.needed_in(number)
        else NOT_NEEDED
        for expectation in EXPECTATIONS
    }
    return Outcome(verdicts, tuple(differences(source, number)))


def _spell(finding: Finding) -> str:
    return f"{finding.verdict}: {finding.detail}" if finding.detail else finding.verdict.value
