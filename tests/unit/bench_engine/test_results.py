"""What every result of a bench begins with, and how it is kept."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.results import head, write

BEGAN = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)


def test_the_command_of_a_result_can_be_given_to_a_shell_again() -> None:
    found = head("tests.bench.ends", ["--output", "a b.json"], BEGAN)
    assert shlex.split(str(found["command"])) == ["python", "-m", "tests.bench.ends", "--output", "a b.json"]
    assert found["date"] == "2026-01-01T12:00:00+00:00"


def test_a_result_replaces_the_one_before_in_a_folder_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "bench" / "result.json"
    for lost in (1, 0):
        write(file, head("tests.bench.ends", (), BEGAN) | {"lost": lost})
    assert json.loads(file.read_text())["lost"] == 0
