"""The engines that are compared, and how K=0 is held on one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tests.contract.engine import EAGLE3, HEAVY_TARGET, Engine, Launch
from tests.contract.factories import a_constant, a_push

MAX_NUM_SEQS = 32
LONGEST_LEASE = 3600

_HEAVY = partial(Launch, target=HEAVY_TARGET, flags=("--max-num-seqs", str(MAX_NUM_SEQS)))
STOCK, AGAIN, SYNC, SKIP = "no drafter", "no drafter, again", "K=0, Sync", "K=0, Skip"
BOTH = "no drafter, mean of both"
"""Two equal processes differ for their whole life, so one alone does not suffice."""
UNRULED = (STOCK, AGAIN)
_STOCK = _HEAVY(
    speculation=None,
    entry=("-m", "vllm.entrypoints.openai.api_server"),
    variables={"VLLM_PLUGINS": ""},
)
ARMS: Mapping[str, Mapping[str, Launch]] = {
    "draft_model": {
        STOCK: _STOCK,
        AGAIN: _STOCK,
        SYNC: _HEAVY(variables={"OUTRIDER_K0": "Sync"}),
        SKIP: _HEAVY(variables={"OUTRIDER_K0": "Skip"}),
    },
    "eagle3": {
        STOCK: _STOCK,
        AGAIN: _STOCK,
        SYNC: _HEAVY(speculation=EAGLE3, variables={"OUTRIDER_K0": "Sync"}),
        SKIP: _HEAVY(speculation=EAGLE3, variables={"OUTRIDER_K0": "Skip"}),
    },
}
"""By method."""


def hold_k0(engine: Engine, *, epoch: int) -> None:
    """Renew the lease of a table that drafts nothing."""
    table = a_push(term=1, epoch=epoch, schedule=a_constant(0), lease_seconds=LONGEST_LEASE)
    engine.put(table).raise_for_status()
