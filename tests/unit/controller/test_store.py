from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.resource import SpeculativeModel
from outrider.cluster.objects import Metadata
from outrider.cluster.resources import CONFIG_MAPS, PODS
from outrider.controller.store import Cache, Key, Store, StoredModel, StoredPod
from outrider.plan.names import MODEL_LABEL
from tests.unit.api.from_schema import nested
from tests.unit.controller.factories import a_launch_order, a_raw_model, a_raw_pod

MODEL = Key("default", "m")


def a_cache(*pods: dict[str, object]) -> Cache[StoredPod]:
    cache = Cache(StoredPod.read)
    for pod in pods:
        cache.put(pod)
    return cache


def names(cache: Cache[StoredPod]) -> list[str]:
    return [entry.metadata.name for entry in cache.of_model(MODEL)]


def metadata(raw: dict[str, object]) -> Metadata:
    return Metadata.model_validate(raw["metadata"])


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    cache = a_cache(a_raw_pod("a", version=5, ready=True))

    assert cache.put(a_raw_pod("a", version=4, ready=False)) is None
    assert next(iter(cache)).pod.ready


@given(st.permutations(range(1, 7)))
def test_the_newest_state_wins_in_any_order(versions: list[int]) -> None:
    cache = a_cache(*(a_raw_pod("a", version=version) for version in versions))

    assert [entry.metadata.version for entry in cache] == [6]


def test_finds_the_pods_of_a_model_by_label() -> None:
    cache = a_cache(a_raw_pod("b"), a_raw_pod("a"), a_raw_pod("c", model="other"))

    assert names(cache) == ["a", "b"]


def test_a_pod_that_changes_its_label_changes_its_model() -> None:
    cache = a_cache(a_raw_pod("a", version=1), a_raw_pod("a", version=2, model="other"))

    assert names(cache) == []


def test_forgets_a_deleted_object() -> None:
    cache = a_cache(a_raw_pod("a"))
    cache.drop(metadata(a_raw_pod("a")))

    assert names(cache) == []
    assert len(cache) == 0


def test_a_late_deletion_does_not_take_the_successor_of_the_same_name() -> None:
    cache = a_cache(a_raw_pod("a", uid="old"), a_raw_pod("a", uid="new", version=9))
    cache.drop(metadata(a_raw_pod("a", uid="old", version=8)))

    assert names(cache) == ["a"]


def test_a_full_read_forgets_what_is_gone_and_names_its_model() -> None:
    cache = a_cache(a_raw_pod("a", version=1), a_raw_pod("b", version=2))

    assert cache.replace([a_raw_pod("a", version=1)], 7, within=None) == {MODEL}
    assert names(cache) == ["a"]


def test_a_full_read_without_a_difference_concerns_nobody() -> None:
    cache = a_cache(a_raw_pod("a", version=1))

    assert cache.replace([a_raw_pod("a", version=1)], 7, within=None) == set()


def test_an_old_full_read_does_not_take_away_what_was_made_since() -> None:
    cache = a_cache(a_raw_pod("new", version=9))

    assert cache.replace([], 7, within=None) == set()
    assert names(cache) == ["new"]


def test_a_full_read_of_one_namespace_leaves_the_others_alone() -> None:
    cache = a_cache(a_raw_pod("a"))

    cache.replace([], 7, within="elsewhere")
    assert names(cache) == ["a"]


def test_keeps_an_unreadable_model_with_the_complaint() -> None:
    stored = StoredModel.read(a_raw_model(replicas="many"))

    assert stored.model is None
    assert stored.problem is not None
    assert stored.problem.startswith("spec.replicas: ")


def test_a_field_of_a_newer_operator_does_not_make_a_model_unreadable() -> None:
    raw = a_raw_model()
    raw["spec"]["speculation"]["tuning"] = {"mode": "Auto", "fieldOfTomorrow": "Never"}

    stored = StoredModel.read(raw)

    assert stored.model is not None
    assert stored.model.spec.tuning_mode == "Auto"


def test_a_status_that_cannot_be_read_does_not_make_a_model_unreadable() -> None:
    stored = StoredModel.read(a_raw_model(status={"conditions": [{"type": "Ready"}]}))

    assert stored.model is not None
    assert stored.model.status.conditions == []


def test_each_kind_has_its_cache() -> None:
    store = Store()
    store.cache(PODS).put(a_raw_pod("a"))

    assert [pod.metadata.name for pod in store.pods_of(MODEL)] == ["a"]


def test_a_model_belongs_to_itself_whatever_its_labels_say() -> None:
    raw = a_raw_model()
    raw["metadata"]["labels"] = {MODEL_LABEL: "other"}
    store = Store()

    assert store.models.replace([raw], 7, within=None) == {MODEL}
    assert store.models.model_of(metadata(raw)) == MODEL


def test_a_child_belongs_to_its_owner_whatever_its_labels_say() -> None:
    store = Store()
    for labels in ({MODEL_LABEL: "other"}, {}):
        order = a_launch_order(version=len(labels) + 1)
        order["metadata"]["labels"] = labels
        store.children[CONFIG_MAPS].put(order)

        found = store.children[CONFIG_MAPS].of_model(MODEL)
        assert [child.metadata.name for child in found] == ["m-launch"]


def a_pod_that_nobody_can_read() -> dict[str, object]:
    return {**a_raw_pod("odd"), "status": {"containerStatuses": "many"}}


def test_a_pod_that_cannot_be_read_is_left_out_and_counted() -> None:
    left_out: list[None] = []
    store = Store(left_out=lambda: left_out.append(None))

    assert store.pods.put(a_pod_that_nobody_can_read()) is None
    assert len(left_out) == 1


@pytest.mark.parametrize(
    "odd",
    [a_pod_that_nobody_can_read(), {}, {"metadata": None}, {"metadata": {"name": 3}}, {"metadata": "m"}],
)
def test_a_full_read_takes_all_that_can_be_read(odd: dict[str, object]) -> None:
    cache = a_cache()

    assert cache.replace([a_raw_pod("a"), odd, a_raw_pod("b")], 7, within=None) == {MODEL}
    assert names(cache) == ["a", "b"]


@pytest.mark.parametrize("levels", [100, 600, 5_000])
def test_a_model_that_is_nested_without_end_is_kept_with_the_complaint(levels: int) -> None:
    stored = StoredModel.read(a_raw_model(podTemplate={"spec": nested(levels)}))

    assert stored.model is None
    assert stored.problem is not None
    assert stored.problem.startswith("spec.podTemplate.spec: ")


def test_a_model_that_no_reader_was_made_for_is_kept_and_the_log_says_what_went_wrong(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defect(_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(SpeculativeModel, "of_stored", defect)
    stored = StoredModel.read(a_raw_model())

    assert stored.model is None
    assert stored.problem == "the object cannot be read; write it plainer. The operator's log has the cause"
    assert "default/m: RecursionError: too deep" in caplog.text
