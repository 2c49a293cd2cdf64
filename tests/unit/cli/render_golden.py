"""What ``outrider render`` prints of the examples: ``golden/render-<example>.yaml``.

``python -m tests.unit.cli.render_golden --write`` writes what it prints today; read the diff.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from outrider.cli.main import app

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).parent / "golden"
EXAMPLES = ("llama-ngram", "qwen3-8b-eagle3")


def printed(example: str) -> str:
    return CliRunner().invoke(app, ["render", str(ROOT / "examples" / f"{example}.yaml")]).stdout


def expected(example: str) -> str:
    return (FOLDER / f"render-{example}.yaml").read_text()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.cli.render_golden")
    parser.add_argument("--write", action="store_true", help="overwrite the expected texts")
    if not parser.parse_args(arguments).write:
        parser.error("nothing to do; pass --write, then read the diff")
    for example in EXAMPLES:
        (FOLDER / f"render-{example}.yaml").write_text(printed(example))


if __name__ == "__main__":
    main()
