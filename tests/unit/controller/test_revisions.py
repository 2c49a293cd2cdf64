"""Launches that pods bear are planned once each, and a bounded number of them."""

from __future__ import annotations

from typing import Any

from outrider.api.launch import NO_DRAFTER, Launch
from outrider.api.resource import SpeculativeModel
from outrider.cluster.objects import Pod
from outrider.controller.reconcile.revisions import MAX_LAUNCHES, Revisions
from outrider.controller.stored import Key
from outrider.plan import PlanSettings, Rendered, Role, revision
from tests.unit.controller.factories import a_pod, a_raw_model

KEY = Key("default", "m")
SETTINGS = PlanSettings()


def a_model(**spec: Any) -> SpeculativeModel:
    return SpeculativeModel.model_validate(a_raw_model(**spec))


def wanted(model: SpeculativeModel, launch: str = "", role: Role = Role.REPLICA) -> str:
    found = revision(model, Launch.parse(launch), role, settings=SETTINGS)
    assert found is not None
    return found


def pods_of(model: SpeculativeModel, launches: list[str]) -> list[Pod]:
    return [
        a_pod(f"m-{number}", launch=launch, revision=wanted(model, launch))
        for number, launch in enumerate(launches)
    ]


class Counted(Rendered):
    """Notes the launches that it is asked for, also those of other passes over the model."""

    def __init__(self, model: SpeculativeModel, planned: list[str]) -> None:
        super().__init__(model, SETTINGS)
        self._planned = planned

    def revision(self, launch: Launch, role: Role) -> str | None:
        self._planned.append(str(launch))
        return super().revision(launch, role)


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def test_a_pod_is_of_the_spec_however_it_was_launched() -> None:
    model = a_model()
    pods = pods_of(model, ["", NO_DRAFTER, "4:3,*:0"])
    canary = a_pod("c", canary=True, revision=wanted(model, role=Role.CANARY))
    other = a_pod("other", revision="another")
    unreadable = a_pod("unreadable", launch="?", revision=wanted(model))

    found = Revisions().of_spec(KEY, Rendered(model, SETTINGS), [*pods, canary, other, unreadable])

    assert names(found) == ["m-0", "m-1", "m-2", "c"]


def test_a_launch_is_planned_once_for_all_pods_and_passes() -> None:
    model, cache, planned = a_model(), Revisions(), list[str]()
    pods = pods_of(model, ["", "", NO_DRAFTER])
    for _ in range(3):
        assert len(cache.of_spec(KEY, Counted(model, planned), pods)) == 3
    assert planned == ["", NO_DRAFTER]


def test_another_state_of_the_model_is_planned_anew() -> None:
    cache, planned, before, after = Revisions(), list[str](), a_model(), a_model(replicas=3)
    cache.of_spec(KEY, Counted(before, planned), pods_of(before, [""]))
    cache.of_spec(KEY, Counted(after, planned), pods_of(after, [""]))
    assert planned == ["", ""]


def test_a_model_that_is_gone_is_forgotten() -> None:
    cache, model, planned = Revisions(), a_model(), list[str]()
    cache.of_spec(KEY, Counted(model, planned), pods_of(model, [""]))
    cache.forget(KEY)
    cache.of_spec(KEY, Counted(model, planned), pods_of(model, [""]))
    assert planned == ["", ""]


def test_strangers_annotations_are_planned_up_to_a_bound() -> None:
    model, cache, planned = a_model(), Revisions(), list[str]()
    launches = ["", *(f"{size}:3,*:0" for size in range(1, 200))]
    pods = [a_pod(f"m-{number}", launch=text) for number, text in enumerate(launches)]
    for _ in range(5):
        cache.of_spec(KEY, Counted(model, planned), pods)
    assert len(planned) == MAX_LAUNCHES


def test_launches_that_no_pod_has_any_more_make_room_for_new_ones() -> None:
    model, cache, planned = a_model(), Revisions(), list[str]()
    for size in range(1, 3 * MAX_LAUNCHES):
        pods = pods_of(model, ["", f"{size}:3,*:0"])
        assert len(cache.of_spec(KEY, Counted(model, planned), pods)) == 2


def test_as_many_launches_as_there_is_room_for_are_kept_and_only_new_ones_are_planned() -> None:
    model, cache, planned = a_model(), Revisions(), list[str]()
    texts = [f"{size}:3,*:0" for size in range(1, MAX_LAUNCHES + 1)]
    for _ in range(2):
        assert len(cache.of_spec(KEY, Counted(model, planned), pods_of(model, texts))) == MAX_LAUNCHES
    assert planned == texts
    later = [*texts[1:], f"{MAX_LAUNCHES + 1}:3,*:0"]
    assert len(cache.of_spec(KEY, Counted(model, planned), pods_of(model, later))) == MAX_LAUNCHES
    assert planned == [*texts, later[-1]]


def test_a_launch_beyond_the_room_is_planned_as_soon_as_another_one_has_gone() -> None:
    model, cache, planned = a_model(), Revisions(), list[str]()
    texts = [f"{size}:3,*:0" for size in range(1, MAX_LAUNCHES + 2)]
    assert len(cache.of_spec(KEY, Counted(model, planned), pods_of(model, texts))) == MAX_LAUNCHES
    assert len(cache.of_spec(KEY, Counted(model, planned), pods_of(model, texts[1:]))) == MAX_LAUNCHES
    assert planned == texts
