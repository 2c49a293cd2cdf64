"""The page of symptoms names reasons that there are, and each of its questions has a first check."""

from __future__ import annotations

import re

from outrider.api import conditions, reasons
from tests.unit.docs.pages import text_of

PAGE = text_of("docs/guide/troubleshooting.md")
KINDS = [each for each in (*vars(reasons).values(), *vars(conditions).values()) if isinstance(each, type)]
REASONS = {str(member) for kind in KINDS for member in getattr(kind, "__members__", {}).values()}
OF_OTHERS = {"ReadWriteOnce", "ConfigMap", "PodScrape"}


def test_every_reason_on_the_page_is_one_of_the_operators() -> None:
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", PAGE))
    assert len(named) > 20
    assert named - REASONS - OF_OTHERS == set()


def test_every_symptom_has_a_step_or_a_table() -> None:
    sections = PAGE.split("\n## ")[1:]
    assert len(sections) >= 10
    assert [s.splitlines()[0] for s in sections if not re.search(r"^(1\. |\| |- )|\]\(", s, re.M)] == []
