"""What of the tuner's order about the launch the spec allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.launch import Launch, LaunchOrder, effective_order
from outrider_protocol.schedule import Schedule
from tests.unit.plan.factories import a_model

NO_DRAFTER = LaunchOrder(Launch(drafter=False))
TABLE = LaunchOrder(Launch(schedule=Schedule.parse("8:3,*:0")))
BEYOND = LaunchOrder(Launch(schedule=Schedule.parse("8:4,*:0")))
CANARY = LaunchOrder(canary=Launch(drafter=False))
ORDERS = (NO_DRAFTER, TABLE, BEYOND, CANARY, LaunchOrder(Launch(drafter=False), canary=Launch(drafter=False)))


def effective(order: LaunchOrder, *, replicas: int = 2, **tuning: str) -> LaunchOrder:
    return effective_order(a_model(speculation={"tuning": tuning}, replicas=replicas).spec, order)


@pytest.mark.parametrize(
    ("order", "tuning"),
    [
        (NO_DRAFTER, {"structuralOff": "Allow"}),
        (NO_DRAFTER, {"structuralOff": "Allow", "actuation": "Rollout"}),
        (TABLE, {"actuation": "Rollout"}),
        (CANARY, {"canary": "Allow"}),
    ],
)
def test_an_order_that_the_spec_allows_holds(order: LaunchOrder, tuning: dict[str, Any]) -> None:
    assert effective(order, **tuning) == order


@pytest.mark.parametrize(
    ("order", "tuning"),
    [
        (NO_DRAFTER, {}),
        (NO_DRAFTER, {"structuralOff": "Recommend"}),
        (NO_DRAFTER, {"structuralOff": "Allow", "mode": "Observe"}),
        (NO_DRAFTER, {"mode": "Off"}),
        (TABLE, {}),
        (TABLE, {"actuation": "Rollout", "mode": "Observe"}),
        (BEYOND, {"actuation": "Rollout"}),
        (CANARY, {}),
        (CANARY, {"canary": "Allow", "mode": "Observe"}),
    ],
)
def test_an_order_that_the_spec_no_longer_allows_is_ignored(
    order: LaunchOrder, tuning: dict[str, Any]
) -> None:
    assert effective(order, **tuning) == LaunchOrder()


def test_the_only_replica_is_no_canary() -> None:
    assert effective(CANARY, replicas=1, canary="Allow") == LaunchOrder()


def test_replicas_without_a_drafter_need_no_canary() -> None:
    both = LaunchOrder(Launch(drafter=False), canary=Launch(drafter=False))

    assert effective(both, structuralOff="Allow", canary="Allow") == NO_DRAFTER


def test_a_method_whose_k_is_fixed_takes_no_order() -> None:
    spec = a_model(method="suffix", speculation={"tuning": {"mode": "Off"}}).spec

    assert {effective_order(spec, order) for order in ORDERS} == {LaunchOrder()}


@given(
    order=st.sampled_from(ORDERS),
    tuning=st.sampled_from(
        [
            {},
            {"structuralOff": "Allow", "canary": "Allow"},
            {"actuation": "Rollout", "structuralOff": "Allow"},
        ]
    ),
)
def test_a_stored_object_stays_valid(order: LaunchOrder, tuning: dict[str, Any]) -> None:
    once = effective(order, **tuning)

    assert effective(once, **tuning) == once
