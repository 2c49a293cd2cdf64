"""Files of tables: what is read, and how complaints name the cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.performance.tables_file import TableError, parse_tables, read_tables, select
from tests.unit.lab.factories import VISIBLE, a_file


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tokens_per_second": [[50, 90], [300, -1]]}, r"small\): tokens_per_second\[1\]\[1\] is -1"),
        ({"tokens_per_second": [[50, 90], [300, 0]]}, r"tokens_per_second\[1\]\[1\] is 0"),
        ({"tokens_per_second": [[50, 90], [300]]}, r"tokens_per_second\[1\]\[1\] is missing"),
        ({"tokens_per_second": [[50, 90], [300, 1, 2]]}, r"tokens_per_second\[1\] has 3 entries"),
        ({"tokens_per_second": [[50, 90]]}, r"tokens_per_second\[1\] is missing"),
        ({"tokens_per_second": [[50, "x"], [300, 1]]}, r"tokens_per_second\[0\]\[1\]: .*valid number"),
        ({"tokens_per_second": [[50, None], [300, 1]]}, r"tokens_per_second\[0\]\[1\]: .*valid number"),
        ({"tokens_per_second": [[50, float("nan")], [300, 1]]}, r"tokens_per_second\[0\]\[1\]: .*finite"),
        ({"tokens_per_second": [[50, float("inf")], [300, 1]]}, r"tokens_per_second\[0\]\[1\]: .*finite"),
        ({"batch_sizes": [1, 0]}, r"batch_sizes\[1\] is 0"),
        ({"batch_sizes": [1, 1]}, r"batch_sizes\[1\] is 1, which is there already"),
        ({"num_speculative_tokens": [0, -1]}, r"num_speculative_tokens\[1\] is -1"),
        ({"no_speculation_tokens_per_second": [50]}, r"no_speculation_tokens_per_second\[1\] is missing"),
        ({"no_speculation_tokens_per_second": [50, -2]}, r"no_speculation_tokens_per_second\[1\] is -2"),
        ({"accepted_per_step": [[0, 1.5], [0, 0.5]]}, r"accepted_per_step\[0\]\[1\] is 1.5"),
        ({"name": ""}, r"tables\[0\]\.name"),
    ],
)
def test_a_table_that_cannot_be_is_refused_with_the_cell(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(TableError, match=complaint):
        parse_tables(a_file(**changes), "file.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tables": []}', "{"])
def test_a_file_without_tables_is_refused(text: str) -> None:
    with pytest.raises(TableError, match=r"file\.json"):
        parse_tables(text, "file.json")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(TableError, match=r"nowhere\.json"):
        read_tables(Path("nowhere.json"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TableError, match="no table 'x', there are: a40_7b, gb10_qwen3_coder_30b"):
        select(read_tables(VISIBLE), "x")


def test_a_gap_in_the_acceptance_is_filled_on_a_line() -> None:
    table = read_tables(VISIBLE)["gemma31b_batch11_4k"]
    assert table.accepted is not None
    assert table.accepted[0] is not None
    assert table.accepted[0][2] == pytest.approx((0.82 + 1.78) / 2)
