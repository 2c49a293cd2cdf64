from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from outrider.controller import garbage
from outrider.controller.garbage import Survivors, short_collections


class Node:
    def __init__(self) -> None:
        self.own: Node | None = None


def a_cycle() -> Node:
    node = Node()
    node.own = node
    return node


@pytest.fixture(autouse=True)
def _automatic() -> Iterator[None]:
    """Only the collections of a test take place."""
    gc.disable()
    yield
    gc.enable()


class Seen:
    """Whether the next collection looks at a node, as a callback of `gc.callbacks`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.was_looked_at: bool | None = None

    def __call__(self, phase: str, _: object) -> None:
        if phase == "start":
            self.was_looked_at = is_looked_at(self.node)


def is_looked_at(node: Node) -> bool:
    """Frozen objects are in no generation."""
    return any(each is node for each in gc.get_objects())


def test_a_full_collection_looks_only_at_what_came_after_the_last_one() -> None:
    before = Node()
    with short_collections():
        assert not is_looked_at(before)
        later = Node()
        assert is_looked_at(later)
        gc.collect()
        assert not is_looked_at(later)
    assert is_looked_at(later)


def test_collections_of_new_objects_freeze_nothing() -> None:
    with short_collections():
        node = Node()
        gc.collect(1)
        assert is_looked_at(node)


def test_cycles_are_freed() -> None:
    with short_collections():
        found = weakref.ref(a_cycle())
        gc.collect()
        assert found() is None


def test_frozen_cycles_are_freed_when_many_objects_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_collections():
        node = a_cycle()
        gc.collect()
        found = weakref.ref(node)
        del node
        gc.collect()
        assert found() is not None
        monkeypatch.setattr(garbage, "GROWTH", 0.5)
        gc.collect()
        assert found() is None
        assert gc.get_freeze_count() > 0


def test_frozen_objects_are_looked_at_again_when_the_peak_of_memory_has_tripled() -> None:
    peak = 100
    survivors = Survivors(lambda: peak)
    survivors.settle()
    gc.callbacks.append(survivors)
    try:
        node = Node()
        gc.collect()
        for peak in (300, 301):
            gc.callbacks.append(seen := Seen(node))
            gc.collect()
            gc.callbacks.remove(seen)
            assert seen.was_looked_at is (peak == 301)
    finally:
        gc.callbacks.remove(survivors)
        gc.unfreeze()


def test_afterwards_nothing_is_frozen() -> None:
    with short_collections():
        gc.collect()
    assert gc.get_freeze_count() == 0
    assert not any(isinstance(each, garbage.Survivors) for each in gc.callbacks)
