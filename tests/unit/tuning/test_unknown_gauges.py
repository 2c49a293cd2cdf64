"""A missing gauge is not zero: its guardrail does not apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision
from outrider.tuning.observe.window import Window
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.tuning.factories import POLICY, Engine, a_start

WAITING, KV = "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"


@dataclass
class Blind(Engine):
    """An engine that does not show some of its gauges."""

    hidden: tuple[str, ...] = ()

    def window(self, before: Decision | None, state: TunerState, *, seconds: float, at: float) -> Window:
        shown = super().window(before, state, seconds=seconds, at=at)
        return replace(shown, **dict.fromkeys(self.hidden))  # type: ignore[arg-type]


def decisions(*engines: Engine, ticks: int = 12, k: int = 3) -> list[Decision]:
    found: list[Decision] = []
    state = a_start(k)
    for at in range(5, 5 * ticks + 1, 5):
        before = found[-1] if found else None
        seen: Sequence[Window] = [e.window(before, state, seconds=5.0, at=float(at)) for e in engines]
        found.append(decide(TickContext(seen, state, policy=POLICY, now=float(at))))
        state = found[-1].state
    return found


@pytest.mark.parametrize(
    ("hidden", "metric"), [("requests_waiting", WAITING), ("kv_usage_ratio", KV)], ids=["waiting", "kv"]
)
@pytest.mark.parametrize("seeing", [0, 1])
def test_nothing_is_tried_while_one_pod_hides_a_gauge(hidden: str, metric: str, seeing: int) -> None:
    others = [Engine(pod=f"default/seen-{i}") for i in range(seeing)]
    found = decisions(Blind(hidden=(hidden,)), *others)
    assert not any(decision.probe for decision in found)
    last = found[-1]
    assert last.reason is DecisionReason.METRICS_GAP
    assert last.sentence == f"batch 7-12: not every pod reports {metric}, so no probe starts"


def test_slices_are_tried_by_the_same_engines_when_they_show_their_gauges() -> None:
    assert any(decision.probe for decision in decisions(Blind()))


def learnt(batch: float) -> TunerState:
    """Every K was measured, and the best is known."""
    return decisions(Engine(batch), ticks=40)[-1].state


def test_k_does_not_rise_while_the_usage_of_the_kv_cache_is_not_known() -> None:
    state = learnt(4.0)
    best = state.bins[POLICY.bin_of(4.0)].k
    at = (state.at or 0.0) + 5.0
    low = replace(state.bins[POLICY.bin_of(4.0)], k=0, settled_at=None, changed_at=None, replaced=None)
    lowered = state.with_bin(POLICY.bin_of(4.0), low).composed(POLICY)

    def next_k(engine: Engine) -> Decision:
        return decide(
            TickContext([engine.window(None, lowered, seconds=5.0, at=at)], lowered, policy=POLICY, now=at)
        )

    assert next_k(Engine(4.0)).num_speculative_tokens == best > 0
    blind = next_k(Blind(4.0, hidden=("kv_usage_ratio",)))
    assert blind.num_speculative_tokens == 0
    assert KV in blind.sentence
