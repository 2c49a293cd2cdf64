"""An operator that sees old, late or no objects: it repairs what it missed, and undoes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.faults.faults import Effect, Fault
from tests.faults.kills import Course, live_until
from tests.faults.life import SETTINGS, Life, a_life
from tests.faults.place import Place

pytestmark = pytest.mark.nightly("long")

_ALL = Fault(Effect.STATUS, watch=None)
_CHILDREN = ("deployments", "services", "configmaps", "secrets", "serviceaccounts", "poddisruptionbudgets")


@pytest.fixture
def life(place: Place, namespaces: Callable[[], str], reference: Course) -> Iterator[Life]:
    """A model that was rolled out once, with K=3."""
    with a_life(place, namespaces(), {**SETTINGS, "OUTRIDER_RESYNC_SECONDS": "10"}) as found:
        live_until(found, "retune", reference)
        yield found


def writes(life: Life, since: int) -> list[str]:
    """What was written of the model's objects."""
    calls = [seen.call for seen in life.gate.calls[since:]]
    return [
        str(call) for call in calls if call.writes and call.plural in _CHILDREN and "tuner" not in call.name
    ]


def test_a_watch_that_is_silent_is_made_up_for_by_the_next_full_read(life: Life) -> None:
    with life.gate.under(Fault(Effect.SILENT, watch=True)):
        life.change({"replicas": 3})
        wanted = replace(life.wanted, replicas=3)
        life.settle(wanted)


def test_a_restart_writes_no_child_and_reads_each_kind_once(life: Life, reference: Course) -> None:
    life.operator.stop()
    since = len(life.gate.calls)
    life.restart()
    life.until(lambda: "" if life.operator.log.count("leading, term") == 2 else "a second leader")
    life.settle(life.wanted)
    assert writes(life, since) == []
    lists = [s.call.plural for s in life.gate.calls[since:] if not s.call.name and not s.call.writes]
    assert lists.count("deployments") <= 3  # the first read, and the first list and watch of kopf
    life.must_be_like(reference.pictures["retune"])


def test_a_list_of_an_old_snapshot_undoes_nothing(life: Life, reference: Course) -> None:
    """The proxy's first answers are those of an empty namespace."""
    life.operator.stop()
    started, since = set(life.history.started), len(life.gate.calls)
    kinds = ("speculativemodels", "pods", *_CHILDREN)
    with life.gate.under(*(Fault(Effect.OLD, "GET", plural) for plural in kinds)):
        life.operator.start()
        life.until(lambda: "" if life.operator.log.count("leading, term") == 2 else "a second leader")
        life.until(lambda: life.unrest(reads=True))
        assert not [each for each in writes(life, since) if each.startswith("DELETE")]
    life.operator.kill()
    life.settle(life.wanted)
    life.must_be_like(reference.pictures["retune"])
    assert life.history.started == started


@pytest.mark.parametrize(("status", "seconds"), [(503, 5), (500, 5), (504, 5), (401, 8), (429, 5), (503, 70)])
def test_an_api_server_that_refuses_everything_for_a_while_changes_nothing(
    status: int, seconds: int, life: Life
) -> None:
    started = set(life.history.started)
    with (
        life.gate.under(replace(_ALL, status=status)),
        life.gate.under(Fault(Effect.ERROR_EVENT, watch=True)),
    ):
        life.wait(seconds)
    life.change({"replicas": 3})
    life.settle(replace(life.wanted, replicas=3))
    assert started <= life.history.started
    assert life.operator.starts == 1, "the process ended"


def test_an_api_server_that_cannot_be_reached_for_30_s_changes_nothing(life: Life, reference: Course) -> None:
    with life.gate.under(Fault(Effect.CUT, watch=None)):
        life.place.loop.run(life.proxy.stop())
        life.wait(30)
        life.place.loop.run(life.proxy.start())
    life.settle(life.wanted)
    life.must_be_like(reference.pictures["retune"])
    assert life.operator.starts == 1, "the process ended"


def test_a_refused_child_is_a_condition_and_no_hot_loop(life: Life) -> None:
    with life.gate.under(Fault(Effect.STATUS, "PATCH", "deployments", status=403)):
        since = len(life.gate.calls)
        life.change({"engine": {"args": {"max-num-seqs": 96}}})
        life.until(
            lambda: "" if life.condition("Degraded").get("reason") == "ApplyRefused" else "ApplyRefused"
        )
        life.wait(5)
        refused = [s for s in life.gate.calls[since:] if str(s.call).startswith("PATCH deployments")]
        assert len(refused) <= 3
    life.change({"engine": {"args": {"max-num-seqs": 64}}})
    life.settle(replace(life.wanted, scratch="64"))
