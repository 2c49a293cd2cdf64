"""``outrider sweep`` on a stand-in: the table that it writes, and that it leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.commands import NAME, look
from tests.cluster.outrider_cli import guidellm, has_no_override, outrider

pytestmark = [pytest.mark.engine("twin", "starts")]


def test_a_sweep_fills_every_cell_and_simulate_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    load = ("--streams", "1,4", "--rounds", "2", "--seconds", "4", "--k", "0", "--k", "3")
    words = ("sweep", NAME, "--yes", "-n", "default", "--guidellm", guidellm(), "--save", str(file), *load)
    ended = outrider(*words, seconds=900)
    print(ended.err, ended.out, sep="\n")
    assert ended.code == 0, ended.err
    (table,) = json.loads(file.read_text())["tables"]
    assert (table["batch_sizes"], table["num_speculative_tokens"]) == ([1, 4], [0, 3])
    assert all(plain > 0 and drafting > 0 for plain, drafting in table["tokens_per_second"])
    picture = tmp_path / "simulated.svg"
    assert outrider("simulate", "--tables", str(file), "--dwell", "30", "--plot", str(picture)).code == 0
    assert "<svg" in picture.read_text()
    assert has_no_override(look())
