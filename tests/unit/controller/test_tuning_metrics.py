"""What the ticks of a model came to, as Prometheus sees it."""

from __future__ import annotations

import math

import pytest

from outrider.api.reasons import DecisionReason
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.stored import Key
from outrider.tuning.decision import Kind, Probe, Slice
from tests.unit.controller.full_metrics import MODEL, POLICY, QWEN, a_decision

PROBE = Probe("prod/a", 4, 6, (Slice(1, 1.0), Slice(0, 2.5)))


def value(metrics: OwnMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"outrider_model_{name}", MODEL | labels)


def after_a_tick(**what: float | None) -> OwnMetrics:
    metrics = OwnMetrics()
    metrics.tuning.ticked(QWEN, a_decision(**what), POLICY)  # type: ignore[arg-type]
    return metrics


def test_decisions_are_counted_by_kind_and_reason() -> None:
    metrics = after_a_tick()
    metrics.tuning.ticked(QWEN, a_decision(), POLICY)
    metrics.tuning.ticked(QWEN, a_decision(Kind.EXPLOIT, DecisionReason.BETTER_K), POLICY)

    assert value(metrics, "decisions_total", kind="Hold", reason="Settled") == 2
    assert value(metrics, "decisions_total", kind="Exploit", reason="BetterK") == 1


def test_the_time_of_probes_begins_at_zero_so_that_a_rate_sees_the_first_probe() -> None:
    assert value(after_a_tick(), "probe_seconds_total") == 0


def test_a_probe_costs_the_time_of_its_slices() -> None:
    metrics = after_a_tick()
    metrics.tuning.probed(QWEN, PROBE)
    metrics.tuning.probed(QWEN, PROBE)

    assert value(metrics, "probe_seconds_total") == 7.0


def test_what_slices_are_believed_to_have_cost_is_a_share_of_the_time_in_which_it_counts() -> None:
    found = value(after_a_tick(loss=0.6), "probe_loss_ratio")

    assert found == pytest.approx(0.6 / POLICY.safety.loss_seconds)


def test_the_gain_over_the_static_table_is_that_of_the_ledger() -> None:
    assert value(after_a_tick(), "static_gain_ratio") == pytest.approx(math.exp(0.1))


def test_batch_bins_are_counted_by_whether_their_k_is_settled() -> None:
    metrics = after_a_tick()

    assert value(metrics, "batch_bins", state="settled") == 1
    assert value(metrics, "batch_bins", state="calibrating") == 1


def test_a_batch_size_that_nobody_knows_any_more_disappears() -> None:
    metrics = after_a_tick(batch_size=6.0)
    assert value(metrics, "batch_size") == 6.0

    metrics.tuning.ticked(QWEN, None, POLICY)

    assert value(metrics, "batch_size") is None


def test_everything_of_a_model_that_is_gone_disappears_and_the_others_stay() -> None:
    metrics = after_a_tick()
    metrics.tuning.probed(QWEN, PROBE)
    metrics.tuning.ticked(Key("prod", "other"), a_decision(), POLICY)

    metrics.tuning.forget(QWEN)

    left = {
        sample.labels["model"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if "model_namespace" in sample.labels
    }
    assert left == {"other"}


def test_labels_come_from_fixed_sets() -> None:
    metrics = OwnMetrics()
    for kind in Kind:
        for reason in DecisionReason:
            metrics.tuning.ticked(QWEN, a_decision(kind, reason), POLICY)
            metrics.tuning.ticked(QWEN, a_decision(kind, reason), POLICY)

    shown = [
        sample
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "outrider_model_decisions_total"
    ]
    assert len(shown) == len(Kind) * len(DecisionReason)
