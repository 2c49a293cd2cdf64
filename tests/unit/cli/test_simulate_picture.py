"""``outrider simulate --plot``."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from typer.testing import CliRunner, Result

from outrider.cli.main import app

TABLES = Path(__file__).parents[3] / "examples" / "tables" / "visible_tables.json"
NAMED = ("--tables", str(TABLES), "--name", "gb10_qwen3_coder_30b", "--dwell", "60")


def simulated(*words: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *NAMED, *words])


def test_the_picture_has_a_line_per_policy_in_both_panels(tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"
    assert simulated("--policy", "static:0,static:4", "--plot", str(file)).exit_code == 0
    text = file.read_text()
    ElementTree.fromstring(text)
    assert [text.count(f">{name}<") for name in ("static:0", "static:4")] == [1, 1]
    lines = [part for part in re.findall(r"<path (.*?)/>", text, re.DOTALL) if "stroke: #" in part]
    assert len(lines) == 4 + 2  # In both panels, and in the legend.


def test_what_is_printed_is_the_same_with_a_picture(tmp_path: Path) -> None:
    plain = simulated("--policy", "static:0")
    assert simulated("--policy", "static:0", "--plot", str(tmp_path / "p.svg")).stdout == plain.stdout


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for file in (tmp_path / "none" / "p.svg", tmp_path / "p.png"):
        result = simulated("--plot", str(file))
        assert result.exit_code == 2
        assert result.stderr.startswith(f"outrider simulate: --plot is {file}, must be ")
