from __future__ import annotations

from outrider.api.status import DecisionRecord, SpeculationState, SpeculationStatus, Status


def test_ratios_are_written_as_short_texts_and_read_back_as_numbers() -> None:
    status = SpeculationStatus(state=SpeculationState.ACTIVE, acceptance_rate=0.81666)
    wire = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert wire == {"state": "Active", "acceptanceRate": "0.82"}
    assert SpeculationStatus.model_validate(wire).acceptance_rate == 0.82


def test_a_decision_keeps_the_wire_name_from() -> None:
    record = DecisionRecord.model_validate(
        {"time": "2026-01-01T12:00:00Z", "from": "*:0", "to": "8:3,*:0", "reason": "Faster"}
    )
    assert record.from_ == "*:0"
    assert record.model_dump(mode="json", by_alias=True, exclude_none=True)["from"] == "*:0"


def test_fields_of_a_newer_operator_are_ignored() -> None:
    assert Status.model_validate({"observedGeneration": 3, "novelty": True}).observed_generation == 3


def test_a_condition_that_does_not_apply_is_absent() -> None:
    assert Status().condition("Degraded") is None
