from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.resource import SpeculativeModel
from outrider.cluster.objects import Metadata
from outrider.cluster.resources import CONFIG_MAPS, PODS
from outrider.controller.kept_fields import Content, NamespaceBudgets, footprint
from outrider.controller.store import Cache, EntryT, LeftOut, Store
from outrider.controller.stored import Key, StoredChild, StoredModel, StoredPod
from outrider.plan.names import MODEL_LABEL
from tests.unit.api.from_schema import nested
from tests.unit.controller.factories import a_launch_order, a_raw_model, a_raw_pod

Json = dict[str, Any]

MODEL = Key("default", "m")


def a_cache(*pods: dict[str, object]) -> Cache[StoredPod]:
    cache = Cache(StoredPod.read, budgets=NamespaceBudgets(2**20))
    for pod in pods:
        cache.put(pod)
    return cache


def full_read(
    cache: Cache[EntryT],
    raws: list[dict[str, object]],
    version: int = 7,
    *,
    within: str | None = None,
    seen: int = 0,
) -> set[Key]:
    return cache.replace(filter(None, map(cache.read, raws)), version, within=within, seen=seen)


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

    assert full_read(cache, [a_raw_pod("a", version=1)]) == {MODEL}
    assert names(cache) == ["a"]


def test_a_full_read_without_a_difference_concerns_nobody() -> None:
    cache = a_cache(a_raw_pod("a", version=1))

    assert full_read(cache, [a_raw_pod("a", version=1)]) == set()


def test_an_old_full_read_does_not_take_away_what_was_made_since() -> None:
    cache = a_cache(a_raw_pod("new", version=9))

    assert full_read(cache, []) == set()
    assert names(cache) == ["new"]


def test_a_full_read_does_not_bring_back_what_was_deleted_during_it() -> None:
    cache = a_cache(a_raw_pod("a", version=3), a_raw_pod("b", version=3))
    with cache.reading():
        cache.drop(metadata(a_raw_pod("a", version=8)))

        assert full_read(cache, [a_raw_pod("a", version=3), a_raw_pod("b", version=3)], 7) == set()
    assert names(cache) == ["b"]


def test_a_full_read_takes_the_successor_of_what_was_deleted_during_it() -> None:
    cache = a_cache(a_raw_pod("a", version=3))
    with cache.reading():
        cache.drop(metadata(a_raw_pod("a", version=6)))
        full_read(cache, [a_raw_pod("a", uid="new", version=7)], 7)

    assert [entry.metadata.uid for entry in cache.of_model(MODEL)] == ["new"]


def test_a_full_read_whose_versions_went_back_brings_back_what_was_deleted_during_it() -> None:
    cache = a_cache(a_raw_pod("a", version=80))
    with cache.reading() as seen:
        cache.drop(metadata(a_raw_pod("a", version=81)))
        full_read(cache, [a_raw_pod("a", version=40)], 50, seen=seen)

    assert names(cache) == ["a"]


def test_a_deletion_counts_for_the_full_read_of_its_time_alone() -> None:
    cache = a_cache(a_raw_pod("a", version=3))
    with cache.reading():
        cache.drop(metadata(a_raw_pod("a", version=8)))
    with cache.reading():
        full_read(cache, [a_raw_pod("a", version=3)], 7)

    assert names(cache) == ["a"]


def test_a_full_read_of_one_namespace_leaves_the_others_alone() -> None:
    cache = a_cache(a_raw_pod("a"))

    full_read(cache, [], within="elsewhere")
    assert names(cache) == ["a"]


def test_keeps_an_unreadable_model_with_the_complaint() -> None:
    stored = StoredModel.read(a_raw_model(replicas="many"))

    assert stored.model is None
    assert stored.problem is not None
    assert stored.problem.startswith("spec.replicas: ")


def test_the_spec_of_a_model_is_parsed_again_only_if_it_changed() -> None:
    models = Store().models
    first = models.put(a_raw_model())
    status = {"replicas": 3}
    raw = a_raw_model(version=2, status=status)
    raw["metadata"]["annotations"] = {"outrider.dev/paused": "true"}
    second, third = models.put(raw), models.put(a_raw_model(version=3, replicas=7))

    assert first is not None
    assert first.model is not None
    assert second is not None
    assert second.model is not None
    assert third is not None
    assert third.model is not None
    assert second.model.spec is first.model.spec
    assert second.model == StoredModel.read(raw).model
    assert third.model.spec.replicas == 7


def test_a_state_that_is_known_is_not_parsed_again() -> None:
    models = Store().models
    raw = a_raw_model(version=2)

    assert models.news(raw) is not None
    models.put(raw)
    assert models.news(raw) is None
    assert models.news(a_raw_model(version=1)) is None
    assert models.news(a_raw_model(version=3)) is not None


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

    assert full_read(store.models, [raw]) == {MODEL}
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
    left_out: list[LeftOut] = []
    store = Store(left_out=left_out.append)

    assert store.pods.put(a_pod_that_nobody_can_read()) is None
    assert left_out == [LeftOut.UNREADABLE]


@pytest.mark.parametrize(
    "odd",
    [a_pod_that_nobody_can_read(), {}, {"metadata": None}, {"metadata": {"name": 3}}, {"metadata": "m"}],
)
def test_a_full_read_takes_all_that_can_be_read(odd: dict[str, object]) -> None:
    cache = a_cache()

    assert full_read(cache, [a_raw_pod("a"), odd, a_raw_pod("b")]) == {MODEL}
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
    assert stored.problem == "The object cannot be parsed; the operator's log has the cause."
    assert "default/m: RecursionError: too deep" in caplog.text


def versions(cache: Cache[EntryT]) -> dict[str, int]:
    return {entry.metadata.name: entry.metadata.version for entry in cache}


def test_versions_that_went_back_make_the_read_hold_deletions_too() -> None:
    cache = a_cache(a_raw_pod("changed", version=50), a_raw_pod("made-after-the-backup", version=60))

    concerned = full_read(cache, [a_raw_pod("changed", version=10)], 20, seen=cache.newest)
    assert concerned == {MODEL}
    assert versions(cache) == {"changed": 10}
    assert cache.newest == 20
    assert cache.put(a_raw_pod("changed", version=21)) is not None


def test_versions_that_went_back_and_have_passed_the_old_ones_again_do_so_too() -> None:
    cache = a_cache(a_raw_pod("changed", version=50), a_raw_pod("gone", version=60))

    full_read(cache, [a_raw_pod("changed", version=10)], 70, seen=cache.newest)
    assert versions(cache) == {"changed": 10}


def test_what_came_in_while_a_read_went_on_is_no_sign_of_a_backup() -> None:
    cache = a_cache(a_raw_pod("a", version=5))
    seen = cache.newest
    cache.put(a_raw_pod("a", version=9))
    cache.put(a_raw_pod("new", version=10))

    full_read(cache, [a_raw_pod("a", version=5)], 7, seen=seen)
    assert versions(cache) == {"a": 9, "new": 10}


def test_the_newest_version_is_that_of_a_read_or_of_an_object() -> None:
    cache = a_cache(a_raw_pod("a", version=5))
    assert cache.newest == 5
    full_read(cache, [a_raw_pod("a", version=5)], 8)
    assert cache.newest == 8


def a_labelled_config_map(name: str = "odd", *, size: int = 10, version: int = 1, **metadata: Any) -> Json:
    about = {"namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **about},
        "data": {"filler": "x" * size},
    }


def test_of_a_large_child_little_stays() -> None:
    annotations = {"someone.else/notes": "x" * 200_000}
    stored = StoredChild.read(a_labelled_config_map(size=1_000_000, annotations=annotations))

    assert stored.size < 10_000
    assert len(pickle.dumps(stored)) < 10_000
    assert stored.content.unpacked() is None
    assert stored.data == {}


@pytest.mark.parametrize(
    ("name", "read"), [("m-launch", "launch"), ("m-schedule", "schedule.json"), ("m-tuner", None)]
)
def test_of_a_config_map_only_what_the_operator_reads_is_kept(name: str, read: str | None) -> None:
    raw = a_labelled_config_map(name, labels={MODEL_LABEL: "m"})
    raw["data"] = {"launch": "x" * 100_000, "schedule.json": "x" * 100_000, "other": "x"}

    assert {key: len(text) for key, text in StoredChild.read(raw).data.items()} == (
        {read: 64 * 1024} if read else {}
    )


def test_the_content_of_a_child_has_the_same_digest_whatever_its_status() -> None:
    before = StoredChild.read(a_labelled_config_map(version=1, generation=1))
    raw = {**a_labelled_config_map(version=2, generation=2, managedFields=[]), "status": {"ready": True}}

    assert StoredChild.read(raw).content.digest == before.content.digest
    assert StoredChild.read(a_labelled_config_map(size=11)).content.digest != before.content.digest


def test_a_child_that_was_compared_stays_compared_until_its_content_changes() -> None:
    cache = Store().children[CONFIG_MAPS]
    first = cache.put(a_labelled_config_map())
    assert first is not None
    assert first.content.unpacked() is not None
    cache.improve(first.agreeing("digest"))

    compared = cache.put({**a_labelled_config_map(version=2), "status": {}})
    assert compared is not None
    assert (compared.agrees_with, compared.content.packed) == ("digest", None)
    changed = cache.put(a_labelled_config_map(version=3, size=11))
    assert changed is not None
    assert changed.agrees_with is None


def test_a_state_that_was_overtaken_is_not_improved() -> None:
    cache = Store().children[CONFIG_MAPS]
    first = cache.put(a_labelled_config_map())
    cache.put(a_labelled_config_map(version=2, size=11))
    assert first is not None
    cache.improve(first.agreeing("digest"))

    assert versions(cache) == {"odd": 2}


def test_a_namespace_without_room_keeps_nothing_of_another_out(caplog: pytest.LogCaptureFixture) -> None:
    left_out: list[LeftOut] = []
    store = Store(left_out=left_out.append, namespace_bytes=100_000)
    for number in range(100):
        store.pods.put(a_raw_pod(f"p{number}"))
    kept = len(store.pods)

    assert 0 < kept < 100
    assert left_out == [LeftOut.NO_ROOM] * (100 - kept)
    assert caplog.text.count("dropped an object, because its namespace uses") == 1
    other = a_raw_pod("other")
    other["metadata"]["namespace"] = "elsewhere"
    assert store.pods.put(other) is not None


def test_room_comes_back_with_a_deletion() -> None:
    store = Store(namespace_bytes=100_000)
    for number in range(100):
        store.pods.put(a_raw_pod(f"p{number}"))
    kept = list(store.pods)
    store.pods.drop(kept[0].metadata)

    assert store.pods.put(a_raw_pod("another")) is not None
    for entry in list(store.pods):
        store.pods.drop(entry.metadata)
    for number in range(len(kept)):
        assert store.pods.put(a_raw_pod(f"q{number}")) is not None


def test_all_kinds_share_the_room_of_their_namespace() -> None:
    store = Store(namespace_bytes=100_000)
    for number in range(100):
        store.pods.put(a_raw_pod(f"p{number}"))

    large = a_labelled_config_map(annotations={"outrider.dev/note": "x" * 20_000})
    assert store.children[CONFIG_MAPS].put(large) is None


def test_a_model_without_room_is_kept_with_what_it_is_told() -> None:
    store = Store(namespace_bytes=100_000)
    big = a_raw_model(podTemplate={"metadata": {"annotations": {"note": "x" * 200_000}}})
    stored = store.models.put(big)

    assert stored is not None
    assert (stored.model, stored.size) == (None, 0)
    assert "namespace default" in str(stored.problem)
    assert "delete objects that are not needed" in str(stored.problem)
    again = store.models.put(a_raw_model(version=2))
    assert again is not None
    assert again.model is not None


def test_what_belongs_to_no_model_is_missed_until_a_full_read() -> None:
    store = Store()
    pod = metadata(a_raw_pod("a"))

    assert not store.was_missed(MODEL)
    assert not store.of_a_model(PODS, pod)
    assert store.was_missed(MODEL)
    assert not store.was_missed(Key("default", "other"))
    store.models.put(a_raw_model())
    assert store.of_a_model(PODS, pod)
    store.forget_missed()
    assert not store.was_missed(MODEL)


def test_beyond_a_number_of_unknown_models_every_model_counts_as_missed() -> None:
    store = Store(max_unknown_models=2)
    for model in "abc":
        store.of_a_model(PODS, metadata(a_raw_pod("p", model=model)))

    assert store.was_missed(Key("default", "c"))


@given(
    st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_a_footprint_counts_every_part_once(value: Any) -> None:
    def counted(part: Any) -> int:
        inner = [*part.keys(), *part.values()] if isinstance(part, dict) else part
        return sys.getsizeof(part) + sum(map(counted, inner if isinstance(part, dict | list) else ()))

    assert footprint(value, most=2**30) == counted(value)


def test_a_footprint_is_not_counted_to_its_end_where_it_is_beyond_the_limit() -> None:
    class Counted(list[object]):
        looked_at = 0

        def __iter__(self) -> Iterator[object]:
            Counted.looked_at += 1
            return super().__iter__()

    assert footprint([Counted([]) for _ in range(1_000)], most=10_000) > 10_000
    assert Counted.looked_at < 200


@pytest.mark.parametrize(("size", "kept"), [(64 * 1024, True), (64 * 1024 + 1, False)])
def test_a_content_of_up_to_64_kib_of_json_is_kept(size: int, *, kept: bool) -> None:
    raw = a_labelled_config_map(size=0)
    del raw["metadata"]["resourceVersion"]
    filler = size - len(json.dumps(raw))

    content = Content.of(a_labelled_config_map(size=filler))
    assert (content.unpacked() is not None) is kept
