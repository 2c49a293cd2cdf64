from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.cluster.installation import (
    MAX_NAMESPACES,
    TERM_ANNOTATION,
    WATCHES_ANNOTATION,
    Claim,
    Installation,
)
from tests.unit.cluster.installations import a_raw_lease, an_installation

CREATED = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())

names = st.text("abc-", min_size=1, max_size=5).map(lambda text: f"n{text}n")
claims = st.builds(Claim, st.frozensets(names, max_size=5), names, st.booleans())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(claims)
def test_a_claim_reads_back_from_a_lease_as_it_was_written(claim: Claim) -> None:
    read = Installation.read(a_raw_lease(annotations=claim.annotations()))

    assert read is not None
    assert read.claim == claim


def test_the_term_is_the_time_of_creation_plus_the_changes_of_holder() -> None:
    read = Installation.read(a_raw_lease(leaseTransitions=3))

    assert read is not None
    assert read.term == CREATED + 3


@pytest.mark.parametrize(
    ("stored", "term"),
    [
        (str(CREATED + 50), CREATED + 50),
        ("1", CREATED + 3),
        ("-1", CREATED + 3),
        ("²", CREATED + 3),
        ("9" * 5000, CREATED + 3),
    ],
)
def test_a_stored_term_counts_where_it_is_higher_and_a_number(stored: str, term: int) -> None:
    annotations = {**Claim(account="outrider").annotations(), TERM_ANNOTATION: stored}
    read = Installation.read(a_raw_lease(annotations=annotations))

    assert read is not None
    assert read.term == term


@pytest.mark.parametrize(
    "watches",
    ["", ",", "a,", "A", "a b", "../a", "*,a", ",".join(f"n{i}" for i in range(MAX_NAMESPACES + 1))],
)
def test_a_lease_whose_claim_cannot_be_read_is_no_installation(watches: str) -> None:
    annotations = {**Claim(account="outrider").annotations(), WATCHES_ANNOTATION: watches}

    assert Installation.read(a_raw_lease(annotations=annotations)) is None


def test_a_lease_that_claims_nothing_is_no_installation() -> None:
    assert Installation.read(a_raw_lease(annotations={})) is None


@given(st.sampled_from(["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime"]), json_values)
def test_no_lease_raises(field: str, value: Any) -> None:
    read = Installation.read(a_raw_lease(**{field: value}))

    assert read is None or isinstance(read, Installation)


def test_a_lease_that_was_given_back_has_no_holder() -> None:
    raw = a_raw_lease()
    del raw["spec"]["holderIdentity"]
    read = Installation.read(raw)

    assert read is not None
    assert read.holder == ""


def test_the_older_reign_comes_first() -> None:
    assert an_installation("z", began=1).precedes(an_installation("a", began=2))


def test_of_two_reigns_of_one_moment_the_name_decides() -> None:
    assert an_installation("a").precedes(an_installation("b"))


def test_who_cannot_see_the_others_comes_first() -> None:
    assert an_installation(began=2, sees_others=False).precedes(an_installation("b", began=1))


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [("", "", True), ("", "x", True), ("x y", "y z", True), ("x", "y", False)],
)
def test_claims_overlap_where_some_namespace_is_in_both(one: str, other: str, overlap: bool) -> None:
    first, second = an_installation(watches=one).claim, an_installation(watches=other).claim

    assert (first.overlaps(second), second.overlaps(first)) == (overlap, overlap)
