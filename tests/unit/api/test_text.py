from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.text import in_one_line, shortened, whole_number


@given(st.integers(0, 10_000), st.integers(0, 5_000))
def test_reads_a_number_whatever_zeros_stand_before_it(number: int, zeros: int) -> None:
    assert whole_number("0" * zeros + str(number), most=10_000) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "1e3", "1_000", "many", "²", "٣", "0x10"])
def test_anything_but_ascii_digits_is_no_number(text: str) -> None:
    assert whole_number(text, most=10_000) is None


@pytest.mark.parametrize("text", ["10001", "9" * 5_000])
def test_a_number_beyond_the_bound_is_none(text: str) -> None:
    assert whole_number(text, most=10_000) is None


def test_a_number_below_the_bound_is_none() -> None:
    assert whole_number("0", least=1, most=9) is None


@given(st.text(max_size=20), st.integers(1, 20))
def test_what_is_left_out_is_marked(text: str, longest: int) -> None:
    short = shortened(text, longest)

    assert len(short) <= longest
    assert short == text or (len(text) > longest and short.endswith("…"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("all is well", "all is well"),
        ("a\x1b[2J\x1b]0;t\x07b", "a [2J ]0;t b"),
        ("a\nb\rc\td\x00e\x7f\x9b", "a b c d e  "),
        ("\u202eé", " é"),
    ],
)
def test_nothing_is_left_that_a_terminal_acts_on(text: str, line: str) -> None:
    assert in_one_line(text) == line
