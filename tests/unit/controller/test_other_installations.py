from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.cluster.installation import Installation
from outrider.controller.other_installations import Installations, preceding
from outrider.controller.sightings import Sightings
from outrider.controller.stored import Key
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


def views(present: list[Installation]) -> list[tuple[Installation, Installations]]:
    """Each of them, and what it sees."""
    seen = []
    for own in present:
        view = Installations()
        view.managers = preceding(own, [other for other in present if other != own])
        seen.append((own, view))
    return seen


@given(installations, st.sampled_from(["x", "y"]))
def test_of_all_operators_that_watch_a_namespace_exactly_one_manages_it(
    present: list[Installation], namespace: str
) -> None:
    watching = [view for own, view in views(present) if own.claim.covers(namespace)]
    assume(watching)

    assert sum(view.manages(Key(namespace, "m")) for view in watching) == 1


def test_an_installation_of_other_namespaces_is_ignored() -> None:
    own, other = an_installation("a", watches="x", began=1), an_installation("b", watches="y")

    assert preceding(own, [other]) == []


def test_an_operator_without_another_installation_manages_everything() -> None:
    assert Installations().manages(Key("x", "m"))


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
