"""Series are shared out by namespace and model, whatever the pods of one of them show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.telemetry.budget import (
    batches,
    by_namespace,
    by_turns,
    fair_shares,
    halves,
    left_out,
    too_many_series,
)
from outrider.telemetry.series import MAX_SERIES, PodKey

WANTS = st.dictionaries(st.text(max_size=3), st.integers(0, 1000), max_size=6)
PODS = st.builds(PodKey, st.sampled_from("abc"), st.sampled_from([f"p{index}" for index in range(6)]))
FLEETS = st.dictionaries(
    PODS, st.tuples(st.integers(0, MAX_SERIES + 100), st.sampled_from("mn")), max_size=14
)


def of(fleet: dict[PodKey, tuple[int, str]]) -> tuple[dict[PodKey, int], dict[PodKey, str]]:
    return {pod: size for pod, (size, _) in fleet.items()}, {pod: model for pod, (_, model) in fleet.items()}


def test_small_wants_are_met_and_the_rest_is_shared_evenly() -> None:
    assert fair_shares({"a": 10, "b": 100, "c": 1000}, 150) == {"a": 10, "b": 70, "c": 70}
    assert fair_shares({"a": 10, "b": 20}, 150) == {"a": 10, "b": 20}
    assert fair_shares({}, 150) == {}


@given(WANTS, st.integers(0, 3000))
def test_shares_are_max_min_fair(wants: dict[str, int], most: int) -> None:
    shares = fair_shares(wants, most)
    assert sum(shares.values()) <= most
    assert all(shares[key] <= wants[key] for key in wants)
    largest = max(shares.values(), default=0)
    assert all(shares[key] >= largest - 1 for key in wants if shares[key] < wants[key])
    if sum(wants.values()) <= most:
        assert shares == wants


A, B, C = PodKey("shop", "a"), PodKey("shop", "b"), PodKey("bank", "c")


def test_nobody_is_left_out_while_there_is_room() -> None:
    assert left_out({A: 10, B: 20, C: 30}, {A: "m", B: "m", C: "m"}, most=60) == {}


def test_a_pod_with_more_series_than_is_read_of_any_is_left_out() -> None:
    series = {A: MAX_SERIES + 1, B: MAX_SERIES, C: 1}
    assert left_out(series, {A: "m", B: "m", C: "m"}) == {
        A: f"{MAX_SERIES + 1} series exceed the limit of {MAX_SERIES}"
    }


def test_a_namespace_with_too_many_loses_its_own_largest_pods() -> None:
    tenant = {PodKey("tenant", f"p{index}"): 100 + index for index in range(10)}
    series = {**tenant, A: 300, C: 40}
    found = left_out(series, dict.fromkeys(series, "m"), most=1000)
    assert set(found) == {PodKey("tenant", f"p{index}") for index in (9, 8, 7, 6)}
    assert found[PodKey("tenant", "p9")] == (
        "109 series, and 1045 with the other pods of its model, which may have 660:"
        " the fleet exceeds the limit of 1000"
    )


def test_a_model_with_too_many_leaves_the_other_models_of_its_namespace_theirs() -> None:
    series = {A: 100, B: 900, C: 900}
    assert left_out(series, {A: "small", B: "large", C: "m"}, most=1900) == {}
    assert set(left_out(series, {A: "small", B: "large", C: "m"}, most=1899)) == {B}
    assert set(left_out(series, {A: "small", B: "large", C: "m"}, most=1000)) == {B, C}


@given(FLEETS, st.integers(0, 60_000), PODS)
def test_what_others_show_never_costs_a_pod_within_its_share(
    fleet: dict[PodKey, tuple[int, str]], most: int, pod: PodKey
) -> None:
    """Its share, were every namespace and every model in it to want all that there is."""
    series, models = of({**fleet, pod: (1, "own")})
    namespaces = {each.namespace for each in series}
    own_models = {models[each] for each in series if each.namespace == pod.namespace}
    found = left_out(series, models, most=most)
    read = sum(count for each, count in series.items() if each not in found)
    assert read <= most
    if most // len(namespaces) // len(own_models) >= 1:
        assert pod not in found


@given(FLEETS, st.integers(1, 30_000), st.integers(1, 40), st.lists(PODS, max_size=5))
def test_each_pod_is_in_exactly_one_batch_that_fits(
    fleet: dict[PodKey, tuple[int, str]], most: int, characters: int, strangers: list[PodKey]
) -> None:
    series, models = of(fleet)
    never = set(strangers) - set(series)
    found = list(batches(series, models, most_series=most, most_characters=characters, never=never))
    assert sorted(pod for batch in found for pod in batch) == sorted(series)
    for batch in found:
        if len(batch) > 1:
            assert sum(series[pod] for pod in batch) <= most
            assert sum(len(pod.pod) + len(pod.namespace) + 2 for pod in batch) <= characters
            taken = {PodKey(pod.namespace, other.pod) for pod in batch for other in batch}
            assert not taken & never


def test_as_many_pods_as_fit_share_a_batch() -> None:
    series = {A: 10, B: 20, C: 30}
    models = dict.fromkeys(series, "m")
    assert list(batches(series, models, most_series=60, most_characters=22)) == [(C, A, B)]
    assert list(batches(series, models, most_series=59, most_characters=22)) == [(C, A), (B,)]
    assert list(batches(series, models, most_series=60, most_characters=20)) == [(C, A), (B,)]
    assert list(batches(series, models, most_series=5, most_characters=99)) == [(C,), (A,), (B,)]
    assert list(batches({}, {}, most_series=5, most_characters=99)) == []


def test_a_stranger_parts_pods_only_where_one_query_would_take_it() -> None:
    series, models = {A: 1, C: 1}, {A: "m", C: "m"}
    strangers = [PodKey("shop", "x"), PodKey("other", "a")]
    assert list(batches(series, models, most_series=9, most_characters=99, never=strangers)) == [(C, A)]
    taken = PodKey("bank", "a")
    assert list(batches(series, models, most_series=9, most_characters=99, never=[taken])) == [(C,), (A,)]


def test_pods_are_in_the_order_of_namespace_model_and_name() -> None:
    series = dict.fromkeys([A, B, C], 1)
    assert list(batches(series, {A: "y", B: "x", C: "z"}, most_series=9, most_characters=99)) == [(C, B, A)]


def test_a_batch_is_cut_between_namespaces_then_models_then_pods() -> None:
    a, b, c, d = (PodKey("n", name) for name in "abcd")
    models = {a: "m", b: "m", c: "m", d: "n", A: "m", B: "m", C: "m"}
    assert halves((C, A, B), models) == ((C,), (A, B))
    assert halves((a, b, c, d), models) == ((a, b, c), (d,))
    assert halves((a, b, c), models) in (((a,), (b, c)), ((a, b), (c,)))
    assert halves((a, b, c, d), dict.fromkeys(models, "m")) == ((a, b), (c, d))
    with pytest.raises(ValueError, match="1 pods cannot be split"):
        halves((a,), models)


def test_namespaces_take_turns() -> None:
    found = list(by_turns(by_namespace([(A,), (B,), (C,)])))
    assert found == [(A,), (C,), (B,)]
    assert list(by_turns([])) == []


def test_the_words_for_too_many_series() -> None:
    assert too_many_series(12_345) == f"12345 series exceed the limit of {MAX_SERIES}"
