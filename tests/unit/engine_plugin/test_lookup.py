"""The lookup of an engine that was launched without a schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.vllm_adapter.support import lookup_after_launch
from outrider_protocol.releases import Runner
from tests.unit.engine_plugin.factories import CANDIDATES, MAX_NUM_SEQS, some_facts

TOLD = ",".join(map(str, CANDIDATES))


@given(candidates=st.sets(st.integers(0, 4), max_size=5), max_num_seqs=st.integers(6, 300))
def test_every_candidate_is_somewhere_and_the_largest_nearly_everywhere(
    candidates: set[int], max_num_seqs: int
) -> None:
    told = ",".join(map(str, {*candidates, 5}))
    lookup = lookup_after_launch(some_facts(max_num_seqs=max_num_seqs), told)
    assert lookup is not None
    assert len(lookup) == max_num_seqs + 1
    assert set(lookup[1:]) == {*candidates, 5}
    assert lookup.count(5) == max_num_seqs - len(candidates)


@pytest.mark.parametrize("candidates", [None, ""])
def test_without_candidates_there_is_no_table(candidates: str | None) -> None:
    assert lookup_after_launch(some_facts(), candidates) is None


def test_an_engine_that_could_not_follow_a_table_gets_none() -> None:
    assert lookup_after_launch(some_facts(method="suffix"), TOLD) is None
    assert lookup_after_launch(some_facts(data_parallel_size=2), TOLD) is None


def test_the_v2_runner_gets_none_since_it_captured_graphs_for_one_k() -> None:
    assert lookup_after_launch(some_facts(method="eagle3", runner=Runner.V2), TOLD) is None


@pytest.mark.parametrize("candidates", ["0,1,3", "0,1,5,7", "-1,5", "0,x,5", ",".join(map(str, range(17)))])
def test_candidates_that_are_not_of_this_launch_are_refused(candidates: str) -> None:
    with pytest.raises(ValueError, match=r"OUTRIDER_CANDIDATES|invalid literal"):
        lookup_after_launch(some_facts(max_num_seqs=min(MAX_NUM_SEQS, 5)), candidates)
