"""The site: every page can be found, and every link leads somewhere."""

from __future__ import annotations

import posixpath

import pytest

from tests.unit.docs.pages import HOOKS, PLACES, ROOT, SITE, anchors, navigation, text_of


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(navigation()) == sorted([*SITE, *HOOKS.ELSEWHERE])


@pytest.mark.parametrize("place", PLACES)
def test_every_relative_link_leads_to_a_file_and_a_heading(place: str) -> None:
    broken = []
    for target, anchor in HOOKS.links(text_of(place)):
        found = posixpath.normpath(posixpath.join(posixpath.dirname(place), target)) if target else place
        if not (ROOT / found).exists():
            broken.append(target)
        elif anchor and found.endswith(".md") and anchor[1:] not in anchors(text_of(found)):
            broken.append(target + anchor)
    assert broken == []
