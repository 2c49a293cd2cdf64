from __future__ import annotations

from collections import Counter

import pytest

from outrider.cluster.shards import MAX_SHARDS, Shard, shard_of

NAMES = [("team", f"m-{number}") for number in range(4000)]


@pytest.mark.parametrize(
    ("namespace", "name", "found"),
    [
        ("default", "m", [1, 2, 2, 28]),
        ("team-1", "qwen3-8b", [1, 2, 2, 8]),
        ("prod", "llama", [1, 2, 3, 21]),
        ("prod", "llama-2", [1, 1, 1, 5]),
    ],
)
def test_a_model_keeps_its_shard_in_every_release(namespace: str, name: str, found: list[int]) -> None:
    assert [shard_of(namespace, name, of) for of in (1, 2, 4, 32)] == found


@pytest.mark.parametrize("of", [2, 3, 4, 8])
def test_shards_have_about_the_same_number_of_models(of: int) -> None:
    counts = Counter(shard_of(*name, of) for name in NAMES)

    assert sorted(counts) == list(range(1, of + 1))
    assert max(counts.values()) < 1.2 * len(NAMES) / of


@pytest.mark.parametrize("of", range(1, MAX_SHARDS))
def test_one_shard_more_moves_models_to_the_new_one_only(of: int) -> None:
    moved = [name for name in NAMES if shard_of(*name, of) != shard_of(*name, of + 1)]

    assert {shard_of(*name, of + 1) for name in moved} == {of + 1}
    assert len(moved) < 1.3 * len(NAMES) / (of + 1) + 20


def test_exactly_one_shard_owns_a_model() -> None:
    for name in NAMES[:100]:
        assert sum(Shard(number, 7).owns(*name) for number in range(1, 8)) == 1


@pytest.mark.parametrize("text", ["", "1", "0-of-2", "3-of-2", "1-of-2 ", "1-of-99999"])
def test_other_text_is_no_shard(text: str) -> None:
    assert Shard.read(text) is None


def test_a_shard_is_read_as_it_is_written() -> None:
    assert Shard.read(str(Shard(2, 4))) == Shard(2, 4)


def test_shard_1_has_the_same_lease_whatever_their_number() -> None:
    assert [Shard(number, 3).lease_name("outrider") for number in (1, 2, 3)] == [
        "outrider",
        "outrider-2",
        "outrider-3",
    ]
