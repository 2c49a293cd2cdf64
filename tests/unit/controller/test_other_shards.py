"""Processes with another number of shards: exactly one of them manages a model."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.cluster.errors import ClusterError
from outrider.cluster.installation import Claim, Installation
from outrider.cluster.shards import Shard
from outrider.controller.other_shards import NotListed, OtherShards
from outrider.controller.sightings import Sightings
from outrider.controller.stored import Key
from tests.unit.cluster.installations import an_installation

KEYS = [Key("team", f"m-{number}") for number in range(40)]


def a_lease(shard: Shard, since: int | None, *, term: int = 1, holder: str = "") -> Installation:
    return replace(
        an_installation(term=term, holder=holder or f"of {shard}"),
        claim=Claim(shard=shard),
        lease=shard.lease_name("outrider"),
        since=since,
    )


class Process:
    """One that took a Lease; the list of Leases is what a test says."""

    def __init__(self, own: Installation) -> None:
        self.own = own
        self.leases: list[Installation] = [own]
        self.term = own.term
        self.lease = SimpleNamespace(namespace="a", name=own.lease)
        self.claim, self.shard, self.identity = own.claim, own.claim.shard, own.holder
        self.others = OtherShards(self, self)  # type: ignore[arg-type]

    async def list_through(self, *_: Any) -> tuple[list[Installation], int]:
        return self.leases, 1

    async def publish(self, _: Claim, *, above: int) -> None:
        self.term = max(self.term, above + 1)

    def saw(self, _: str) -> None:
        pass

    async def look(self, *others: Installation) -> set[Key]:
        """The models that it manages, once the other Leases are these."""
        self.leases = [self.own, *others]
        await self.others.look()
        return {key for key in KEYS if self.shard.owns(*key) and self.others.manages(key)}


@pytest.fixture(autouse=True)
def _held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Lease with a holder is renewed in time."""
    monkeypatch.setattr(Sightings, "alive", lambda _, seen, **__: [each for each in seen if each.holder])


@pytest.mark.parametrize(("first", "second"), [((1, 1), (2, 2)), ((2, 2), (1, 1)), ((1, 2), (3, 4))])
async def test_of_two_numbers_the_older_process_manages_the_models_of_both(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    elder, younger = a_lease(Shard(*first), 10), a_lease(Shard(*second), 11)
    one, other = Process(elder), Process(younger)

    managed, left = await one.look(younger), await other.look(elder)

    assert managed == {key for key in KEYS if one.shard.owns(*key)}
    assert left == {key for key in KEYS if other.shard.owns(*key)} - managed


async def test_a_process_takes_over_with_a_higher_term_when_the_older_one_ends() -> None:
    elder, younger = a_lease(Shard(), 10, term=500), Process(a_lease(Shard(2, 2), 11, term=7))
    assert await younger.look(elder) == set()

    managed = await younger.look(replace(elder, holder=""))

    assert managed == {key for key in KEYS if Shard(2, 2).owns(*key)}
    assert younger.term > 500


async def test_shards_of_one_number_leave_each_other_alone() -> None:
    process = Process(a_lease(Shard(2, 2), 11))

    assert await process.look(a_lease(Shard(1, 2), 10)) == {key for key in KEYS if Shard(2, 2).owns(*key)}


async def test_a_process_that_does_not_state_its_version_is_older_only_if_it_was_there_before() -> None:
    unstated, process = a_lease(Shard(), None), Process(a_lease(Shard(2, 2), 11))
    assert await process.look(unstated) == set()

    settled = Process(a_lease(Shard(2, 2), 11))
    await settled.look()
    assert await settled.look(unstated) != set()


async def test_a_list_without_the_own_version_is_too_old() -> None:
    process = Process(a_lease(Shard(2, 2), 11))
    process.own = replace(process.own, since=None)

    with pytest.raises(NotListed):
        await process.look()
    assert issubclass(NotListed, ClusterError)
