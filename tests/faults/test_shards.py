"""Several operators that share the models by shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from outrider.cluster.shards import shard_of
from tests.faults.life import wait_until
from tests.faults.oracles import complaints
from tests.faults.place import Place
from tests.faults.shards import NAMES, Crowd, Member, a_crowd


@pytest.fixture
def crowd(place: Place, namespaces: Callable[[], str]) -> Iterator[Crowd]:
    with a_crowd(place, namespaces()) as found:
        yield found


def until_they_lead(*members: Member) -> None:
    wait_until(lambda: "" if all(each.leads() for each in members) else "a leader")


def until_they_wrote(wanted: set[frozenset[str]], *members: Member) -> None:
    """Wait for the models about which each process wrote. A status may follow the push."""

    def lacks() -> str:
        found = {frozenset(each.wrote()) for each in members}
        return "" if found == wanted else f"they wrote about {found}"

    wait_until(lacks)


def of_shard(crowd: Crowd, number: int) -> set[str]:
    return {name for name in NAMES if shard_of(crowd.namespace, name, 2) == number}


def test_two_shards_serve_models_side_by_side_and_each_model_has_one_writer(crowd: Crowd) -> None:
    first, second = crowd.start(shards=2), crowd.start(shards=2)
    until_they_lead(first, second)
    crowd.create()
    crowd.until_pushed(1)
    crowd.retune(3)

    assert first.wrote() | second.wrote() == set(NAMES)
    assert first.wrote() in (of_shard(crowd, 1), of_shard(crowd, 2))
    assert not first.wrote() & second.wrote()
    assert crowd.history.troubles() == (0, [])
    assert complaints(first.operator.log + second.operator.log) == []


@pytest.mark.nightly("long")
def test_a_standby_takes_the_shard_of_a_process_that_was_killed(crowd: Crowd) -> None:
    first, second = crowd.start(shards=2), crowd.start(shards=2)
    until_they_lead(first, second)
    crowd.create()
    crowd.until_pushed(1)
    standby = crowd.start(shards=2)
    wait_until(lambda: "" if "waiting for the Lease" in standby.operator.log else "a standby")
    lost, kept = first.wrote(), second.wrote()
    started = set(crowd.history.started)
    first.operator.kill()
    crowd.retune(3)

    until_they_wrote({frozenset(lost)}, standby)
    assert second.wrote() == kept
    assert crowd.history.started == started
    assert crowd.history.troubles() == (0, [])


@pytest.mark.nightly("long")
def test_models_move_when_the_number_of_shards_changes_and_nothing_else_does(crowd: Crowd) -> None:
    alone = crowd.start(shards=1)
    until_they_lead(alone)
    crowd.create()
    crowd.until_pushed(1)
    crowd.retune(3)
    wait_until(lambda: "" if len(crowd.states()) == len(NAMES) else "the states of all tuners")
    started, states = set(crowd.history.started), crowd.states()

    pair = crowd.start(shards=2), crowd.start(shards=2)
    wait_until(lambda: "" if any(each.leads() for each in pair) else "a leader of two")
    crowd.retune(1)
    assert not any(each.wrote() for each in pair), "the older process keeps its models"
    alone.operator.stop()
    until_they_lead(*pair)
    crowd.retune(5)
    until_they_wrote({frozenset(of_shard(crowd, 1)), frozenset(of_shard(crowd, 2))}, *pair)

    again = crowd.start(shards=1)
    for each in pair:
        each.operator.stop()
    until_they_lead(again)
    crowd.retune(2)
    until_they_wrote({frozenset(NAMES)}, again)
    assert crowd.history.started == started
    assert crowd.states() == states
    assert crowd.history.troubles() == (0, [])
    assert complaints("".join(each.operator.log for each in (alone, *pair, again))) == []
