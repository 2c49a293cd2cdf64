"""The page about installation names every right of the operator, and what a thief of its token can do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import pytest

from tests.unit.chart.kit import ROOT, needs_helm, render, rules

PAGE = (ROOT / "docs" / "guide" / "install.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Permissions\n")[2].partition("\n## ")[0]
TABLE, _, THIEF = SECTION.partition("**What a stolen token of the operator allows.**")
VALUES = ("leaderElection", "detectOtherInstallations", "networkPolicy.enabled", "leaderWorkerSets.enabled")
"""The values that give rights. The second one takes the first."""
WORDS = {"get": "read", "list": "see", "create": "create", "patch": "change", "delete": "delete"}

Rights = Mapping[str, frozenset[str]]


def granted(*on: str) -> Rights:
    """The verbs of the chart's roles by resource. on: the values that are true."""
    settings = (f"{name}={str(name in on).lower()}" for name in VALUES)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for role in render(*settings):
        if role["kind"] in ("Role", "ClusterRole"):
            for _, resource, verbs in rules(role):
                place = resource == "leases" and role["kind"]
                found[f"{resource} of a {place}" if place else resource] |= verbs
    return {resource: frozenset(verbs) for resource, verbs in found.items()}


def added(value: str) -> Rights:
    """What a value grants beyond the rights without it."""
    needed = ("leaderElection",) if value == "detectOtherInstallations" else ()
    before = granted(*needed)
    after = granted(*needed, value)
    return {
        resource: verbs - before.get(resource, frozenset())
        for resource, verbs in after.items()
        if verbs - before.get(resource, frozenset())
    }


def named(value: str) -> Rights:
    """The verbs of the page's table by resource. value: as in its last column."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in re.findall(r"^\| (\w.*) \|$", TABLE, re.MULTILINE):
        objects, verbs, condition = (cell.strip(" `") for cell in row.split("|"))
        if condition == value:
            for name in objects.split(", "):
                resource = name.lower()
                resource = resource.replace("leases in its own namespace", "leases of a Role")
                resource = resource.replace(
                    "leases named `outrider` in all namespaces", "leases of a ClusterRole"
                )
                found[resource] |= set(verbs.split(", "))
    return {resource: frozenset(verbs) for resource, verbs in found.items() if resource != "objects"}


@needs_helm
def test_the_page_has_the_rights_of_every_operator() -> None:
    assert named("") == granted()


@needs_helm
@pytest.mark.parametrize("value", VALUES)
def test_the_page_has_the_rights_that_come_with_a_value(value: str) -> None:
    assert named(value) == added(value) != {}


def pairs() -> list[tuple[str, str]]:
    """What a thief can do: resource and verb, for each object of others."""
    everything = granted(*VALUES)
    return [
        (resource, verb)
        for resource, verbs in everything.items()
        for verb in sorted(verbs & WORDS.keys())
        if "leases" not in resource and "/" not in resource and resource != "subjectaccessreviews"
        # What is listed is read.
        if not (verb == "get" and "list" in verbs)
    ]


@needs_helm
def test_the_page_has_everything_that_a_thief_of_the_token_can_do() -> None:
    bullets = re.findall(r"^- (.*)$", THIEF, re.MULTILINE)

    def said(resource: str, verb: str) -> bool:
        stem = resource.removesuffix("ies") if resource.endswith("ies") else resource.removesuffix("s")
        word = re.compile(rf"\b{stem}(?:s|y|ies)?\b", re.IGNORECASE)
        return any(word.search(bullet) and re.search(rf"\b{WORDS[verb]}\b", bullet) for bullet in bullets)

    assert [pair for pair in pairs() if not said(*pair)] == []
    assert ("secrets", "patch") in pairs()
