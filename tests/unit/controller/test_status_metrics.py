"""Everything that a status says of a model can be read from the operator's /metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from outrider.api.conditions import ConditionType
from outrider.api.drafting import MAX_BATCH_SIZE, MAX_K
from outrider.api.status import Status
from outrider.controller.status_metrics import ShownModel, StatusMetrics, shown
from outrider.controller.stored import Key, StoredModel
from tests.unit.controller.factories import a_condition, a_raw_model
from tests.unit.controller.full_metrics import MODEL, THEN, a_full_model, a_full_status

MOST_SERIES_OF_A_STATUS = len(ConditionType) + MAX_K + 17 + 11 + 8
"""One per condition, position and batch bin, and the single numbers."""


def registry_of(*models: ShownModel) -> CollectorRegistry:
    registry = CollectorRegistry()
    StatusMetrics(registry).follow(lambda: models)
    return registry


def value(model: ShownModel, name: str, **labels: str) -> float | None:
    return registry_of(model).get_sample_value(f"outrider_model_{name}", MODEL | labels)


def series(*models: ShownModel) -> list[tuple[str, dict[str, str]]]:
    samples = (sample for family in registry_of(*models).collect() for sample in family.samples)
    return [(each.name, each.labels) for each in samples]


def stored(**fields: Any) -> ShownModel:
    return shown(StoredModel.read(a_raw_model("qwen3", namespace="prod", **fields)))


def test_the_speedup_comes_with_its_interval_and_its_time() -> None:
    model = a_full_model()

    assert value(model, "speedup_ratio") == 1.4
    assert value(model, "speedup_lower_ratio") == 1.3
    assert value(model, "speedup_upper_ratio") == 1.5
    assert value(model, "speedup_measured_timestamp_seconds") == THEN.timestamp()


@pytest.mark.parametrize(("reference", "measured"), [("Probe", 1), ("Canary", 1), ("Prior", 0)])
def test_a_speedup_that_nobody_measured_is_told_apart(reference: str, measured: float) -> None:
    speedup = {"ratio": 1.2, "reference": reference, "measuredAt": "2026-01-01T00:00:00Z"}
    status = Status.model_validate({"speculation": {"state": "Active", "speedup": speedup}})

    assert value(a_full_model(status=status), "speedup_measured") == measured


def test_acceptance_is_shown_together_and_by_position() -> None:
    model = a_full_model()

    assert value(model, "acceptance_ratio") == 0.7
    assert value(model, "acceptance_length_tokens") == 2.4
    assert value(model, "position_acceptance_ratio", position="1") == pytest.approx(0.9)


def test_k_is_shown_for_each_batch_bin_of_the_engine() -> None:
    found = {
        labels["batch"]: value(a_full_model(max_num_seqs=24), "num_speculative_tokens", batch=labels["batch"])
        for name, labels in series(a_full_model(max_num_seqs=24))
        if name == "outrider_model_num_speculative_tokens"
    }

    assert found == {"1": 3, "2-3": 3, "4-6": 3, "7-12": 3, "13+": 0}


def test_the_bins_are_those_of_the_flags_that_the_engine_gets() -> None:
    model = stored(engine={"image": "engine:1", "args": {"max-num-seqs": 6}})

    assert model.edges == (1, 3, 6)


def test_every_condition_is_shown_with_its_status_and_reason() -> None:
    conditions = [a_condition("Ready", "False", reason="RollingOut")]

    assert (
        value(
            stored(status={"conditions": conditions}),
            "condition",
            type="Ready",
            status="False",
            reason="RollingOut",
        )
        == 1
    )


def test_a_condition_of_somebody_else_is_no_label() -> None:
    conditions = [a_condition("Ready", reason="Whatever"), a_condition("Mine", reason="Serving")]

    assert series(stored(status={"conditions": conditions})) == []


def test_stand_ins_are_told_apart_without_a_label_that_engines_could_fill() -> None:
    computing = a_full_status()
    assert computing.speculation is not None
    computing = computing.model_copy(
        update={"speculation": computing.speculation.model_copy(update={"simulated": None})}
    )

    assert value(a_full_model(), "simulated") == 1
    assert value(a_full_model(status=computing), "simulated") == 0


def test_what_a_status_does_not_say_is_no_series() -> None:
    assert series(a_full_model(status=Status())) == []


def test_a_model_that_is_gone_is_in_no_scrape() -> None:
    registry, models = CollectorRegistry(), [a_full_model()]
    StatusMetrics(registry).follow(lambda: models)
    assert registry.get_sample_value("outrider_model_speedup_ratio", MODEL) == 1.4

    models.clear()

    assert registry.get_sample_value("outrider_model_speedup_ratio", MODEL) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": {"image": "engine:1", "args": {"max-num-seqs": "many"}}},
        {
            "status": {
                "speculation": {
                    "state": "Active",
                    "schedule": [{"maxBatchSize": 8, "numSpeculativeTokens": 1}],
                }
            }
        },
    ],
    ids=["the flags", "the table in its status"],
)
def test_a_model_that_cannot_be_read_does_not_hide_the_others(fields: dict[str, Any]) -> None:
    registry = registry_of(stored(**fields), replace(a_full_model(), key=Key("prod", "healthy")))

    labels = {"model_namespace": "prod", "model": "healthy"}
    assert registry.get_sample_value("outrider_model_speedup_ratio", labels) == 1.4


@given(st.integers(0, 64), st.integers(1, MAX_BATCH_SIZE))
def test_no_model_shows_more_series_than_its_share(positions: int, max_num_seqs: int) -> None:
    model = a_full_model(status=a_full_status(positions=positions), max_num_seqs=max_num_seqs)

    assert len(series(model)) <= MOST_SERIES_OF_A_STATUS


def test_a_hundred_models_show_a_hundred_times_as_much() -> None:
    models = [replace(a_full_model(), key=Key("prod", f"m{number}")) for number in range(100)]

    assert len(series(*models)) == 100 * len(series(a_full_model()))
