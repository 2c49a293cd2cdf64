from __future__ import annotations

import pytest

from examples.kit.status import converged, in_force, k_at
from outrider.api.status import AppliedRow, SpeculationState, SpeculationStatus, Status
from tests.unit.kit.factories import a_status


def confirmed(status: str = "True", *, generation: int) -> Status:
    return a_status("ActuationConverged", status, generation=generation)


def test_a_confirmation_of_this_generation_counts() -> None:
    assert converged(confirmed(generation=3), generation=3)


def test_a_confirmation_of_an_older_generation_does_not_count() -> None:
    assert not converged(confirmed(generation=2), generation=3)


def test_a_pod_that_refused_is_not_converged() -> None:
    assert not converged(confirmed("False", generation=3), generation=3)


def test_the_table_in_force_has_as_few_rows_as_possible() -> None:
    rows = [
        AppliedRow(max_batch_size=8, num_speculative_tokens=0),
        AppliedRow(max_batch_size=16, num_speculative_tokens=0),
        AppliedRow(num_speculative_tokens=0),
    ]
    status = Status(speculation=SpeculationStatus(state=SpeculationState.SOFT_OFF, schedule=rows))
    assert in_force(status) == "*:0"


@pytest.mark.parametrize(("streams", "k"), [(1, 3), (8, 3), (9, 1), (33, 0)])
def test_k_is_read_from_the_row_of_the_load(streams: int, k: int) -> None:
    assert k_at("8:3,32:1,*:0", streams) == k


def test_a_table_without_an_open_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="no open row"):
        k_at("8:3", 9)
