from __future__ import annotations

import pytest

from examples.kit.status import in_force, k_at
from outrider.api.status import AppliedRow, SpeculationState, SpeculationStatus, Status


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
