"""The outcome of a check, and its form on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine_image.testing.contract.expectations import EXPECTATIONS
from engine_image.testing.contract.forms import Expectation, Finding, Release, Verdict
from engine_image.testing.contract.matrix import differences
from engine_image.testing.contract.sglang_expectations import SGLANG_EXPECTATIONS
from engine_image.testing.contract.source import Source
from outrider_protocol.releases import parse_version
from outrider_protocol.sglang_releases import parse_release

RESULT_FILE = Path(__file__).with_name("result.json")
SGLANG_RESULT_FILE = Path(__file__).with_name("sglang_result.json")
NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one release keeps the contract."""

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
    """A check of several releases. ``date`` is that of the check, ISO 8601."""

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
    return Outcome(_verdicts(source, EXPECTATIONS, number), tuple(differences(source, number)))


def check_sglang(source: Source, version: str) -> Outcome:
    """Verify every expectation in one SGLang. source: of its package ``sglang``."""
    return Outcome(_verdicts(source, SGLANG_EXPECTATIONS, parse_release(version)))


def _verdicts(source: Source, expectations: Sequence[Expectation], release: Release) -> dict[str, str]:
    return {
        expectation.form.text(): _spell(expectation.form.verify(source))
        if expectation.needed_in(release)
        else NOT_NEEDED
        for expectation in expectations
    }


def _spell(finding: Finding) -> str:
    return f"{finding.verdict}: {finding.detail}" if finding.detail else finding.verdict.value
