"""How a table of kills is spread over lives."""

from __future__ import annotations

from tests.faults.faults import Call, Effect
from tests.faults.kills import Kill, Point, lives


def kill(step: str, plural: str) -> Kill:
    return Kill(Effect.KILL_BEFORE, Point(step, Call("PATCH", plural), 0))


def test_a_life_has_at_most_one_kill_of_each_step() -> None:
    kills = [
        kill("create", "pods"),
        kill("create", "services"),
        kill("create", "leases"),
        kill("scale", "pods"),
    ]
    assert lives(kills) == [(kills[0], kills[3]), (kills[1],), (kills[2],)]


def test_each_kill_of_a_table_is_in_one_life() -> None:
    kills = [kill(step, plural) for step in ("create", "retune", "scale") for plural in ("pods", "services")]
    assert sorted(map(str, kills)) == sorted(str(each) for row in lives(kills) for each in row)
