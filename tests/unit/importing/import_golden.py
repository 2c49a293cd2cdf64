"""What ``outrider import`` makes of small sources: ``golden/<case>.out.yaml``, and ``.findings`` beside it.

``python -m tests.unit.importing.import_golden --write`` writes what it makes today; read the diff.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from outrider.importing import Imported, Options, Outcome, Refused, import_command, import_text, text_of

FOLDER = Path(__file__).parent / "golden"
COMMANDS = ("command-line", "command-line-schedule", "command-line-sglang")


def cases() -> list[str]:
    return sorted(path.name.partition(".in.")[0] for path in FOLDER.glob("*.in.*"))


def results(case: str, options: Options | None = None) -> list[Imported | Refused]:
    options = options or Options()
    if case in COMMANDS:
        return [import_command(shlex.split((FOLDER / f"{case}.in.txt").read_text()), options)]
    return list(import_text((FOLDER / f"{case}.in.yaml").read_text(), options))


def imported(case: str, options: Options | None = None) -> list[Imported]:
    return [each for each in results(case, options) if isinstance(each, Imported)]


def manifests(case: str) -> str:
    return "---\n".join(text_of(each) for each in imported(case))


def findings(case: str) -> str:
    return "".join(
        f"{each.source}: {outcome}: {finding}\n"
        for each in imported(case)
        for outcome in Outcome
        for finding in each.findings.of(outcome)
    )


def expected(case: str) -> tuple[str, str]:
    return (FOLDER / f"{case}.out.yaml").read_text(), (FOLDER / f"{case}.findings").read_text()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.importing.import_golden")
    parser.add_argument("--write", action="store_true", help="overwrite the expected texts")
    if not parser.parse_args(arguments).write:
        parser.error("nothing to do; pass --write, then read the diff")
    for case in cases():
        (FOLDER / f"{case}.out.yaml").write_text(manifests(case))
        (FOLDER / f"{case}.findings").write_text(findings(case))


if __name__ == "__main__":
    main()
