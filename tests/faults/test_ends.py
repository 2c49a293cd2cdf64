"""The end of an operator, of a model and of a namespace at bad moments."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.faults.faults import Effect, Fault
from tests.faults.kills import Course, live_until
from tests.faults.life import NAME, Life, a_life, another_operator
from tests.faults.oracles import orphans
from tests.faults.place import Place

pytestmark = pytest.mark.nightly("long")


@pytest.fixture
def life(place: Place, namespaces: Callable[[], str], reference: Course) -> Iterator[Life]:
    """A model with K=3."""
    with a_life(place, namespaces()) as found:
        live_until(found, "retune", reference)
        yield found


def gone(life: Life) -> None:
    life.until(lambda: ", ".join(orphans(life.objects())))


def test_an_operator_that_ends_in_a_rollout_leaves_it_to_the_next(life: Life) -> None:
    life.change({"engine": {"args": {"max-num-seqs": 96}}})
    life.until(lambda: "" if len(life.history.started) > 2 else "a new pod")
    life.operator.stop()
    life.settle(replace(life.wanted, scratch="96"))
    assert life.history.fewest == life.wanted.replicas


def test_an_operator_that_is_killed_again_and_again_takes_nothing_from_the_engines(life: Life) -> None:
    started = set(life.history.started)
    for reads in range(5):
        with life.gate.under(Fault(Effect.KILL_BEFORE, "GET", watch=None, after=4 * reads, times=1)):
            life.operator.kill()
            assert life.operator.buried()
            life.restart()
            life.until(lambda: "" if not life.operator.alive else "another kill", restarts=False)
    life.settle(life.wanted)
    assert life.history.started == started
    assert life.history.fewest == life.wanted.replicas


@pytest.mark.parametrize("change", [{"engine": {"args": {"max-num-seqs": 96}}}, {"replicas": 4}])
def test_a_model_that_is_deleted_in_the_middle_leaves_nothing(change: dict[str, object], life: Life) -> None:
    life.change(change)
    life.delete()
    gone(life)


def test_a_model_that_is_deleted_while_it_is_created_leaves_nothing(
    place: Place, namespaces: Callable[[], str]
) -> None:
    with a_life(place, namespaces()) as life:
        life.restart()
        life.create()
        life.until(lambda: "" if any(seen.call.writes for seen in life.gate.calls[5:]) else "a write")
        life.delete()
        gone(life)
        life.until(life.unrest)
        assert not orphans(life.objects())


def test_a_model_that_is_deleted_without_an_operator_leaves_nothing(life: Life) -> None:
    life.operator.stop()
    life.delete()
    life.until(lambda: ", ".join(orphans(life.objects())), restarts=False)


def test_a_model_that_is_created_again_at_once_is_a_new_one(life: Life, reference: Course) -> None:
    before = {each.boot_id for each in life.history.serving.values()}
    life.delete()
    life.create()
    life.settle(replace(life.wanted, k=1))
    assert before
    life.must_be_like(reference.pictures["create"], counts=False)


@pytest.mark.parametrize("up", [True, False])
def test_a_namespace_that_is_deleted_is_gone(up: bool, life: Life) -> None:
    if not up:
        life.operator.stop()
    namespace = f"/api/v1/namespaces/{life.namespace}"
    life.place.api.delete(namespace)
    life.until(lambda: "no namespace" if life.place.api.get(namespace) else "", restarts=False)
    assert life.operator.alive is up


def test_a_leader_that_was_paused_does_nothing_when_another_one_leads(life: Life, reference: Course) -> None:
    with another_operator(life) as other:
        life.until(lambda: "" if "waiting for the Lease" in other.log else "a candidate")
        os.kill(life.operator.pid, signal.SIGSTOP)
        try:
            life.until(lambda: "" if "leading, term" in other.log else "another leader")
        finally:
            os.kill(life.operator.pid, signal.SIGCONT)
        life.until(lambda: "" if "leadership lost" in life.operator.log else "a loss")
        life.settle(life.wanted)
        life.must_be_like(reference.pictures["retune"])
        assert life.operator.alive
        assert life.history.troubles() == (0, [])
    assert life.model() is not None, NAME
