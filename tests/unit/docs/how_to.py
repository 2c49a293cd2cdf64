"""The table of docs/guide/how-to.md: what ``outrider plan`` expects of each example for teams.

``python -m tests.unit.docs.how_to --write`` writes what it says today; read the diff.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence

from typer.testing import CliRunner

from outrider.cli.main import app
from tests.unit.docs.pages import ROOT, text_of

PAGE = "docs/guide/how-to.md"
FOLDER = ROOT / "examples" / "teams"
EXAMPLES = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
GPUS = {
    "air-gapped": "A100-80GB",
    "batch-offline": "H100",
    "chat-autoscaled": "H100",
    "draft-model": "H100",
    "four-gpus": "H100",
    "gated-token": "L40S",
    "long-context": "H200",
    "mixture-of-experts": "H100",
    "observe": "L40S",
    "own-table": "L40S",
    "rag-ngram": "H100",
    "stock-engine": "H100",
}
STREAMS = (1, 8, 32)
_TABLE = re.compile(r"(?<=<!-- how-to: table -->\n).*?(?=<!-- how-to: end -->)", re.DOTALL)


def table() -> str:
    """As it stands on the page."""
    found = _TABLE.search(text_of(PAGE))
    assert found is not None
    return found[0]


def reckoned() -> str:
    heads = ["example", "GPUs", "room for", *(f"{streams} at once" for streams in STREAMS)]
    rows = [heads, ["---"] * len(heads), *(_row(example) for example in GPUS)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(example: str) -> list[str]:
    file = str(FOLDER / f"{example}.yaml")
    words = ["plan", file, "--gpu", GPUS[example], "--streams", str(max(STREAMS)), "--json"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    gains = {each["streams"]: each["speedup"] for each in found["speeds"]}
    most = "at most " if found["method"] == "ngram" else ""
    cells = [f"{most}{gains[streams]:.2f}" if streams in gains else "-" for streams in STREAMS]
    room = str(found["memory"]["streams_with_room"])
    return [f"`{example}`", f"{found['gpus']} x {found['gpu']}", room, *cells]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.docs.how_to")
    parser.add_argument("--write", action="store_true", help="overwrite the table")
    if not parser.parse_args(arguments).write:
        parser.error("nothing to do; pass --write, then read the diff")
    page = ROOT / PAGE
    page.write_text(_TABLE.sub(lambda _: reckoned(), page.read_text()))


if __name__ == "__main__":
    main()
