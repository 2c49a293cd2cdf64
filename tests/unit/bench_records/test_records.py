"""Records of measurements: their form, when they are of older code, and what pages take from them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.bench.records.age import UnknownCommit, changed_since, meaning
from tests.bench.records.pages import OLDER, line_of, lines, pages, rewritten
from tests.bench.records.record import ROOT, Record, Table, records


def a_record(**changes: Any) -> Record:
    """One of a measurement that rests on rule.py."""
    fields = {
        "name": "2026-01-02-ramp",
        "date": "2026-01-02",
        "commit": "0123456",
        "command": "make ramp",
        "shown": "simulated",
        "machine": "two cores",
        "interval": "none",
        "limits": "One seed.",
        "depends": ["rule.py", "table.json"],
        "tables": [{"columns": ["rule", "gain, %"], "rows": [["ours", "1.5"], ["none", ""]]}],
        "raw": None,
    }
    return Record.model_validate(fields | changes)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    (tmp_path / "rule.py").write_text('"""The rule."""\n\n\ndef rule(load):\n    return 3\n')
    (tmp_path / "table.json").write_text("[1]\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "begin")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def measured_at(repository: Path) -> Record:
    """A record of the repository's commit."""
    return a_record(commit=git(repository, "rev-parse", "HEAD"))


def test_a_record_of_this_code_is_of_this_code(repository: Path) -> None:
    assert changed_since(measured_at(repository), repository) == ()


def test_a_record_is_older_where_code_or_data_that_it_depends_on_changed(repository: Path) -> None:
    record = measured_at(repository)
    (repository / "rule.py").write_text("def rule(load):\n    return 2\n")
    assert changed_since(record, repository) == ("rule.py",)
    (repository / "table.json").write_text("[2]\n")
    assert changed_since(record, repository) == ("rule.py", "table.json")


def test_comments_docstrings_and_layout_make_no_record_older(repository: Path) -> None:
    record = measured_at(repository)
    (repository / "rule.py").write_text('def rule(\n    load,\n):\n    """K."""\n    return 3  # always\n')
    assert changed_since(record, repository) == ()


def test_a_file_that_left_makes_a_record_older(repository: Path) -> None:
    record = measured_at(repository)
    (repository / "rule.py").unlink()
    assert changed_since(record, repository) == ("rule.py",)


def test_other_files_make_no_record_older(repository: Path) -> None:
    record = measured_at(repository)
    (repository / "other.py").write_text("x = 1\n")
    assert changed_since(record, repository) == ()


def test_a_commit_that_the_repository_lacks_is_an_error_that_names_the_remedy(repository: Path) -> None:
    with pytest.raises(UnknownCommit, match="git fetch --unshallow"):
        changed_since(a_record(), repository)


def test_meaning_keeps_texts_that_code_uses() -> None:
    assert meaning('x = "one"') != meaning('x = "two"')
    assert meaning('"""One."""\nx = 1') == meaning("x = 1")


@pytest.mark.parametrize("changes", [{"depends": []}, {"commit": "main"}, {"colour": "red"}])
def test_a_record_of_another_form_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        a_record(**changes)


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValidationError, match="every row needs 2 cells"):
        Table(columns=["a", "b"], rows=[["1"]])


def test_a_page_takes_table_date_limits_and_age_from_its_record() -> None:
    record = a_record(older=["rule.py"])
    page = (
        "# Page\n\n<!-- record 2026-01-02-ramp 0 -->\n| old |\n|---|\n| 9 |\n\n"
        "Words.\n\n[Record](../x/2026-01-02-ramp.json): long ago.\n\nMore.\n"
    )
    assert rewritten(page, {record.name: record}) == (
        "# Page\n\n<!-- record 2026-01-02-ramp 0 -->\n| rule | gain, % |\n|---|---|\n| ours | 1.5 |\n"
        "| none | |\n\nWords.\n\n[Record](../x/2026-01-02-ramp.json): 2026-01-02, commit 0123456. One seed. "
        f"{OLDER}\n\nMore.\n"
    )


def test_a_table_is_markdown() -> None:
    assert lines(Table(columns=["a"], rows=[["1"]])) == "| a |\n|---|\n| 1 |\n"


def test_a_record_of_this_code_has_no_mark() -> None:
    assert OLDER not in line_of(a_record(), "")


def test_a_written_record_reads_back_and_keeps_no_defaults() -> None:
    for record in records().values():
        text = record.path.read_text(encoding="utf-8")
        assert Record.model_validate_json(text) == record
        assert '"versions": {}' not in text


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_tables_and_lines_of_its_records(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == rewritten(text, records()), "run `make records ARGS=--write`"
