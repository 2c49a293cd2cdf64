from __future__ import annotations

import pytest

from outrider.cluster.objects import Child
from outrider.cluster.ownership import Ownership, name_taken, ownership
from outrider.controller.children import unwanted
from tests.unit.cluster.factories import OWNER, a_child, a_manifest

CASES = {
    "an object that this model controls": (a_child(), Ownership.OURS),
    "one that was made by Outrider and lost its owner": (
        a_child(owner_uid=None, managers=("kubectl", "outrider")),
        Ownership.OURS,
    ),
    "one without any owner": (a_child(owner_uid=None, managers=("kubectl",)), Ownership.FOREIGN),
    "one of another controller, although Outrider applied to it": (
        a_child(owner_uid="x", owner_kind="ReplicaSet", managers=("outrider",)),
        Ownership.FOREIGN,
    ),
    "one of another model": (a_child(owner_uid="x", owner_name="other"), Ownership.FOREIGN),
    "one of a deleted model of the same name": (a_child(owner_uid="old"), Ownership.PREDECESSORS),
}


@pytest.mark.parametrize(("child", "whose"), CASES.values(), ids=CASES.keys())
def test_whose_it_is(child: Child, whose: Ownership) -> None:
    assert ownership(child, OWNER) is whose


@pytest.mark.parametrize(
    ("child", "advice"),
    [
        (
            a_child("m", owner_uid=None, managers=("kubectl",)),
            "this model. Rename the model, or delete the other object.",
        ),
        (
            a_child("m", owner_uid="x", owner_name="other"),
            "this model but to SpeculativeModel other. Rename one of the two.",
        ),
    ],
)
def test_a_taken_name_is_told_with_its_holder_and_what_to_do(child: Child, advice: str) -> None:
    assert name_taken(child, OWNER).message.endswith(f"exists and does not belong to {advice}")


def test_prunes_what_the_plan_does_not_name() -> None:
    children = [a_child("m"), a_child("m-old")]

    assert [child.metadata.name for child in unwanted(children, [a_manifest("m")], OWNER)] == ["m-old"]


def test_the_same_name_of_another_kind_is_pruned() -> None:
    children = [a_child("m", kind="ConfigMap")]

    assert unwanted(children, [a_manifest("m", kind="Service")], OWNER) == children


@pytest.mark.parametrize("owner_uid", [None, "uid-of-another"])
def test_never_prunes_what_this_model_does_not_control(owner_uid: str | None) -> None:
    assert unwanted([a_child("m-old", owner_uid=owner_uid)], [], OWNER) == []
