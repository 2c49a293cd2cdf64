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


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("guide/bench.md", "[x](tuning.md#y)", "[x](tuning.md#y)"),
        ("guide/threats.md", "[x](../../SECURITY.md)", "[x](../SECURITY.md)"),
        ("SECURITY.md", "[x](docs/guide/install.md)", "[x](guide/install.md)"),
        ("charts/outrider/README.md", "[x](../../docs/guide/install.md)", "[x](../../guide/install.md)"),
        ("guide/plan.md", "[x](../../Makefile)", "x (`Makefile`)"),
        ("guide/plan.md", "[x](https://example.com)", "[x](https://example.com)"),
        ("guide/plan.md", "[x](nowhere.md)", "[x](nowhere.md)"),
    ],
)
def test_a_link_of_the_repository_is_one_of_the_site(page: str, link: str, on_the_site: str) -> None:
    assert HOOKS.rewritten(link, page) == on_the_site


def test_fenced_blocks_are_left_as_they_are() -> None:
    text = "```\n[x](../../Makefile)\n```\n"
    assert HOOKS.rewritten(text, "guide/plan.md") == text


def test_an_alert_of_github_is_an_admonition_on_the_site() -> None:
    text = "Before.\n\n> [!IMPORTANT]\n> **Not** on a GPU.\n> Yet.\n\nAfter.\n"
    assert HOOKS.rewritten(text, "README.md") == (
        "Before.\n\n!!! info\n\n    **Not** on a GPU.\n    Yet.\n\nAfter.\n"
    )
