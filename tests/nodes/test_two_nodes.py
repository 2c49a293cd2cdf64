"""Leader and worker meet, serve as one engine, and are retuned while they run."""

from __future__ import annotations

import time

from tests.contract.factories import a_constant, a_push
from tests.nodes.conftest import Group

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"


def drafted(group: Group) -> tuple[float, float]:
    """Drafts and draft tokens so far."""
    return group.leader.counter(DRAFTS), group.leader.counter(DRAFT_TOKENS)


def tokens_per_draft(group: Group) -> float:
    """Of one request that runs alone."""
    before = drafted(group)
    group.leader.complete(max_tokens=24)
    deadline = time.monotonic() + 60
    while (after := drafted(group)) == before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert after != before, "nothing was drafted"
    return (after[1] - before[1]) / (after[0] - before[0])


def test_they_serve_as_one_engine(group: Group) -> None:
    answer = group.leader.complete(max_tokens=16)
    assert answer["usage"]["completion_tokens"] == 16  # type: ignore[index]
    assert group.worker.poll() is None


def test_the_leader_says_that_its_table_can_change(group: Group) -> None:
    assert group.leader.state()["liveTuning"] == {"possible": True, "reason": None}


def test_k_changes_on_both_while_they_run(group: Group) -> None:
    seen = []
    for epoch, k in enumerate((5, 1), start=1):
        assert group.leader.put(a_push(term=1, epoch=epoch, schedule=a_constant(k))).status_code == 200
        seen.append(tokens_per_draft(group))
    assert seen[0] > 4 > 1 == seen[1]
