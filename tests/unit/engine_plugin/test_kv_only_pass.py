"""Where a pass over what was missed ends, on stand-ins of the shape of vLLM's drafters.

That the KV cache has the tokens then is for the contract tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.vllm_adapter.kv_only_pass import kv_only_pass


class Attending:
    """What attends in a layer."""

    def forward(self, *_: Any, **__: Any) -> str:
        return "attended"


class Drafter:
    """Its ``propose`` passes each of its layers and drafts. passed: the layers whose ends it came to."""

    def __init__(self, *layers: str, writes_as_it_attends: bool = False) -> None:
        backend = SimpleNamespace(forward_includes_kv_cache_update=writes_as_it_attends)
        self.layers = {name: SimpleNamespace(attn_backend=backend, impl=Attending()) for name in layers}
        self._draft_attn_layer_names = set(layers)
        compiled = SimpleNamespace(static_forward_context=self.layers)
        self.vllm_config = SimpleNamespace(compilation_config=compiled)
        self.passed: list[str] = []

    def propose(self) -> str:
        for name, layer in self.layers.items():
            layer.impl.forward("query")
            self.passed.append(name)
        return "drafts"

    def read(self) -> list[str]:
        """The layers that a pass over what was missed goes through."""
        self.passed.clear()
        with kv_only_pass(self._draft_attn_layer_names, self.vllm_config):
            self.propose()
        return self.passed


def test_a_layer_whose_cache_is_written_is_not_gone_through() -> None:
    assert Drafter("only").read() == []


def test_the_pass_after_goes_through_it_again() -> None:
    drafter = Drafter("only")
    drafter.read()
    assert (drafter.propose(), drafter.passed) == ("drafts", ["only"])


def test_several_layers_read_each_other() -> None:
    assert Drafter("first", "last").read() == ["first", "last"]


def test_a_layer_that_writes_the_cache_as_it_attends_is_gone_through() -> None:
    assert Drafter("only", writes_as_it_attends=True).read() == ["only"]


def test_a_fault_on_the_way_is_no_end() -> None:
    drafter = Drafter("only")
    with pytest.raises(ValueError, match="fault"), kv_only_pass(drafter.layers, drafter.vllm_config):
        raise ValueError("fault")
    assert drafter.propose() == "drafts"
