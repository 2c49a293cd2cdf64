"""What ``outrider plan`` prints: of each preset, of a file and of a table, and the run of its guide.

``python -m tests.unit.cli.plan_golden --write`` writes what it prints today; read the diff.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner, Result

from outrider.cli.main import app
from outrider.sizing.tasks import Task

FOLDER = Path(__file__).parent / "golden"
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "plan.md"
RUNS = {
    "of-a-file": "examples/llama-ngram.yaml --streams 16",
    "of-a-table": (
        "--model Qwen3-Coder-30B-A3B-Instruct --gpu GB10 --method eagle3 "
        "--tables examples/tables/visible_tables.json --table gb10_qwen3_coder_30b"
    ),
}
"""Arguments, by the name of their golden text."""
_RUN = re.compile(r"^```\n\$ outrider plan (?P<arguments>.*)\n(?P<printed>[^`]*)```$", re.MULTILINE)


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def printed(task: Task) -> str:
    given = ("--model", "Qwen3-8B", "--gpu", "H100", "--price-per-hour", "2.40", "--task", task)
    return plan(*given).stdout


def expected(name: str) -> str:
    return (FOLDER / f"plan-{name}.txt").read_text()


def runs_of_the_guide() -> list[tuple[str, str]]:
    """Arguments, and what the guide says that they print."""
    return [(run["arguments"], run["printed"]) for run in _RUN.finditer(GUIDE.read_text())]


def printed_for(arguments: str) -> str:
    return plan(*shlex.split(arguments)).stdout


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.cli.plan_golden")
    parser.add_argument("--write", action="store_true", help="overwrite the expected texts")
    if not parser.parse_args(arguments).write:
        parser.error("nothing to do; pass --write, then read the diff")
    FOLDER.mkdir(exist_ok=True)
    for task in Task:
        (FOLDER / f"plan-{task}.txt").write_text(printed(task))
    for name, given in RUNS.items():
        (FOLDER / f"plan-{name}.txt").write_text(printed_for(given))
    GUIDE.write_text(
        _RUN.sub(
            lambda run: f"```\n$ outrider plan {run['arguments']}\n{printed_for(run['arguments'])}```",
            GUIDE.read_text(),
        )
    )


if __name__ == "__main__":
    main()
