"""Engines of the V2 runner by Triton's interpreter, and load that is short enough for them.

A step takes about 50 ms, so a test makes few tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from outrider_protocol.releases import Runner
from tests.contract import quick_start
from tests.contract.engine import EAGLE3, Engine, Launch
from tests.contract.gaps import push
from tests.contract.measuring import Samples, run_streams, scrape, settled

CANDIDATES = (0, 1, 2, 3)
STREAMS = 3
TOKENS = 16
SCHEDULING = ("synchronous", "asynchronous")


def a_launch(
    scheduling: str, *, speculation: Mapping[str, object] | None = EAGLE3, plugins: Sequence[str] = ()
) -> Launch:
    """One on V2. scheduling: one of `SCHEDULING`. plugins: of `helper_plugins`."""
    launch = Launch(speculation, candidates=CANDIDATES, runner=Runner.V2)
    return replace(launch, plugins=(quick_start.NAME, *plugins), asynchronous=scheduling == SCHEDULING[1])


def counted_at(engine: Engine, term: int, epoch: int, k: int, name: str) -> Samples:
    """What a short load counts under one K."""
    push(engine, term, epoch, k)
    before = scrape(engine)
    tokens = run_streams(engine, streams=STREAMS, requests=1, max_tokens=TOKENS, name=name)
    return settled(engine, before=before, tokens=tokens)


def assert_drafts_follow(engine: Engine, term: int, *, ks: Sequence[int] = (0, 3, 1)) -> None:
    """Each K in turn without a restart; every sum agrees with vLLM's own."""
    for epoch, k in enumerate(ks, start=1):
        counted = counted_at(engine, term, epoch, k, f"drafts{k}_")
        assert sorted(counted.by("outrider:draft_tokens_total", "position")) == [str(i) for i in range(k)]
        assert not counted.disagreements()
