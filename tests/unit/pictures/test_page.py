"""A page: a picture for each kind of window, and tables with their own scroll bars."""

from __future__ import annotations

import re

from outrider.pictures.charts import BROAD, NARROW
from outrider.pictures.page import STYLE, picture, table


def test_a_picture_is_drawn_for_a_page_and_for_a_phone() -> None:
    drawn = picture(lambda width: f"of {width}")
    assert drawn == f'<div class="broad">of {BROAD}</div><div class="narrow">of {NARROW}</div>'


def test_one_of_both_is_seen() -> None:
    broad, narrow = STYLE.split("@media (max-width:40rem)")
    assert ".narrow{display:none" in broad
    assert ".broad{display:none}.narrow{display:block}" in narrow


def test_figures_stand_below_one_another_by_their_last_digits() -> None:
    drawn = table(["arm", "gain"], [["K=0", "-"], ["K=3", "+6.7 % [-1.0, +9.9]"]])
    assert re.findall(r'class="figure">(.*?)<', drawn) == ["gain", "-", "+6.7 % [-1.0, +9.9]"]


def test_a_table_of_ks_is_text() -> None:
    assert "class=" not in table(["from"], [["1:5,*:0"]]).removeprefix('<div class="wide">')


def test_a_column_of_sentences_is_wrapped() -> None:
    assert '<td class="words">K=3 is better.</td>' in table(["why"], [["K=3 is better."]], words="why")


def test_cells_are_no_markup() -> None:
    assert "<b>" not in table(["<b>"], [["<b>"]])
