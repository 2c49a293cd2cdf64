"""What a fault matches, and when it strikes."""

from __future__ import annotations

import pytest

from tests.faults.faults import Armed, Call, Effect, Fault

STATUS = Call("PATCH", "speculativemodels", "m", "status")


@pytest.mark.parametrize(
    ("path", "query", "call"),
    [
        ("/api/v1/pods", [("watch", "true")], Call("GET", "pods", watch=True)),
        ("/api/v1/namespaces/a/pods/p", [], Call("GET", "pods", "p")),
        ("/api/v1/namespaces/a", [], Call("GET", "namespaces", "a")),
        ("/apis/apps/v1/namespaces/a/deployments", [("limit", "5")], Call("GET", "deployments")),
        (
            "/apis/outrider.dev/v1alpha1/namespaces/a/speculativemodels/m/status",
            [],
            Call("GET", "speculativemodels", "m", "status"),
        ),
        ("/version", [], Call("GET", "/version")),
    ],
)
def test_a_call_is_known_by_its_path(path: str, query: list[tuple[str, str]], call: Call) -> None:
    assert Call.of("GET", path, query) == call


def test_a_fault_at_one_occurrence_strikes_once() -> None:
    armed = Armed(Fault.at(Effect.KILL_BEFORE, STATUS, after=1))
    assert [armed.strikes(STATUS) for _ in range(4)] == [False, True, False, False]


def test_a_fault_of_every_third_call_counts_its_own_calls_only() -> None:
    armed = Armed(Fault(Effect.STATUS, "PATCH", every=3))
    others = [armed.strikes(Call("GET", "pods")) for _ in range(5)]
    assert not any(others)
    assert [armed.strikes(STATUS) for _ in range(6)] == [False, False, True, False, False, True]


def test_a_fault_has_struck_once_a_call_had_its_effect() -> None:
    armed = Armed(Fault(Effect.CUT, every=2))
    armed.strikes(STATUS)
    assert not armed.struck
    armed.strikes(STATUS)
    assert armed.struck


def test_requests_and_watches_have_faults_of_their_own() -> None:
    watch = Call("GET", "pods", watch=True)
    assert not Fault(Effect.CUT).matches(watch)
    assert Fault(Effect.CUT, watch=None).matches(watch)
    assert not Fault(Effect.SILENT, watch=True).matches(STATUS)
