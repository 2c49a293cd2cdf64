from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.cluster.installation import Installation
from outrider.controller.managed_namespaces import ManagedNamespaces, Sightings, managed_namespaces
from tests.unit.cluster.installations import BEGAN, an_installation

WATCHED = ["", "x", "y", "x y"]
installations = st.lists(
    st.builds(
        an_installation,
        st.sampled_from("abcdef"),
        watches=st.sampled_from(WATCHED),
        began=st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda each: each.namespace,
)


def views(present: list[Installation]) -> list[ManagedNamespaces]:
    """What each of them sees."""
    return [managed_namespaces(own, [other for other in present if other != own]) for own in present]


@given(installations, st.sampled_from(["x", "y"]))
def test_of_all_operators_that_watch_a_namespace_exactly_one_manages_it(
    present: list[Installation], namespace: str
) -> None:
    watching = [view for view in views(present) if view.own and view.own.claim.covers(namespace)]
    assume(watching)

    assert sum(view.other_manager(namespace) is None for view in watching) == 1


@given(installations, st.sampled_from(["x", "y"]))
def test_those_who_stand_by_agree_with_the_one_that_manages(
    present: list[Installation], namespace: str
) -> None:
    watching = [view for view in views(present) if view.own and view.own.claim.covers(namespace)]
    assume(len(watching) > 1)
    (first,) = [view for view in watching if view.other_manager(namespace) is None]

    assert {view.other_manager(namespace) for view in watching} == {None, first.own}
    assert {each.namespace for each in first.standing_by(namespace)} == {
        view.own.namespace for view in watching if view.own and view is not first
    }


def test_who_watches_other_namespaces_is_no_rival() -> None:
    view = managed_namespaces(an_installation("a", watches="x"), [an_installation("b", watches="y")])

    assert view.others == ()


def test_an_operator_that_is_alone_manages_everything() -> None:
    assert ManagedNamespaces().other_manager("x") is None


def alive(sightings: Sightings, *seen: Installation, at: float) -> list[str]:
    """at: seconds of the own clock, which agrees with the others' at first."""
    now = BEGAN + timedelta(seconds=at)
    return [each.namespace for each in sightings.alive(seen, at=at, now=now)]


def test_a_lease_is_alive_while_it_is_renewed() -> None:
    sightings = Sightings()

    assert alive(sightings, an_installation(renewed=0), at=1) == ["a"]
    assert alive(sightings, an_installation(renewed=16), at=17) == ["a"]
    assert alive(sightings, an_installation(renewed=16), at=31) == ["a"]
    assert alive(sightings, an_installation(renewed=16), at=33) == []


def test_a_lease_that_has_run_out_at_the_first_look_is_dead() -> None:
    assert alive(Sightings(), an_installation(renewed=0), at=16) == []


def test_a_lease_that_is_renewed_after_it_ran_out_is_alive() -> None:
    sightings = Sightings()
    alive(sightings, an_installation(renewed=0), at=100)

    assert alive(sightings, an_installation(renewed=1), at=103) == ["a"]


def test_a_lease_of_a_host_whose_clock_is_ahead_runs_out_all_the_same() -> None:
    sightings = Sightings()

    assert alive(sightings, an_installation(renewed=10_000), at=0) == ["a"]
    assert alive(sightings, an_installation(renewed=10_000), at=16) == []


def test_a_lease_that_was_renewed_at_the_end_of_the_calendar_is_alive_until_it_runs_out() -> None:
    sightings = Sightings()
    forged = replace(an_installation(), renewed=datetime.max.replace(tzinfo=UTC))

    assert alive(sightings, forged, at=0) == ["a"]
    assert alive(sightings, forged, at=16) == []


def test_a_lease_that_was_given_back_is_dead_at_once() -> None:
    assert alive(Sightings(), an_installation(renewed=0, holder=""), at=1) == []


def test_a_deleted_lease_is_dead_at_once() -> None:
    sightings = Sightings()
    alive(sightings, an_installation(), at=0)

    assert alive(sightings, at=1) == []
