"""Who works when, as engines are compared."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from tests.bench.k0.arms import AGAIN, SKIP, STOCK
from tests.bench.k0.loads import Load, in_turns


class Engine:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.pushed = 0

    def put(self, _: object) -> Any:
        self.pushed += 1
        return SimpleNamespace(raise_for_status=lambda: None)


def turns(engines: Mapping[str, Any], *, pairs: int) -> list[tuple[str, str]]:
    """(arm, what it was asked for), in their order."""
    order: list[tuple[str, str]] = []
    random.seed(0)
    in_turns(engines, Load(streams=2, tokens=8, pairs=pairs), lambda arm, asked: order.append((arm, asked)))  # type: ignore[type-var]
    return order


def test_each_pair_asks_every_engine_once_and_for_the_same() -> None:
    order = turns({arm: Engine() for arm in (STOCK, AGAIN, SKIP)}, pairs=2)
    assert sorted(order[:3]) == sorted((arm, "load2_0_") for arm in (STOCK, AGAIN, SKIP))
    assert sorted(order[3:]) == sorted((arm, "load2_1_") for arm in (STOCK, AGAIN, SKIP))


def test_k_0_is_held_anew_for_each_pair_on_engines_that_have_a_drafter() -> None:
    engines = {arm: Engine() for arm in (STOCK, SKIP)}
    turns(engines, pairs=3)
    assert (engines[STOCK].pushed, engines[SKIP].pushed) == (0, 3)
