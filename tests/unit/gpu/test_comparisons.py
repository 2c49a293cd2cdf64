"""What the runs of engines side by side say."""

from __future__ import annotations

from tests.bench.k0.runs import Run
from tests.contract.measuring import Samples
from tests.gpu.cells import Load
from tests.gpu.comparisons import Claim, judged, rates, tokens
from tests.gpu.launches import Arm
from tests.gpu.verdicts import Verdict

LOAD = Load(streams=8, tokens=256, pairs=12)


def runs(seconds: float, count: int) -> list[Run]:
    return [Run(seconds, 2048 / seconds, 1.0, 1.0, 0, None) for _ in range(count)]


def compared(slower: float, faster: float, *, limit: float | None, pairs: int = 4) -> tuple[str, Verdict]:
    found = {LOAD: {Arm.LIVE: runs(slower, pairs), Arm.STATIC: runs(faster, pairs)}}
    (check,) = judged(found, [Claim("live against static", Arm.LIVE, Arm.STATIC, limit)])
    return check.name, check.verdict


def test_a_claim_is_judged_by_the_seconds_of_clients() -> None:
    assert compared(1.005, 1.0, limit=1.0) == ("live against static, 8 streams", Verdict.MET)
    assert compared(1.05, 1.0, limit=1.0)[1] is Verdict.NOT_MET


def test_a_claim_without_a_limit_is_shown() -> None:
    assert compared(1.5, 1.0, limit=None)[1] is Verdict.SHOWN


def test_a_claim_without_enough_pairs_did_not_run() -> None:
    assert compared(1.0, 1.0, limit=1.0, pairs=3)[1] is Verdict.NOT_RUN
    assert compared(1.0, 1.0, limit=1.0, pairs=0)[1] is Verdict.NOT_RUN


def test_rates_are_medians_by_arm_and_streams() -> None:
    found = {LOAD: {Arm.LIVE: [*runs(1.0, 2), *runs(8.0, 1)], Arm.STATIC: runs(2.0, 3)}}
    assert rates(found) == {Arm.LIVE: {"8": 2048}, Arm.STATIC: {"8": 1024}}


def test_tokens_are_those_between_two_scrapes() -> None:
    def scraped(drafted: float) -> Samples:
        return Samples({("vllm:spec_decode_num_draft_tokens_total", frozenset()): drafted})

    assert tokens({Arm.LIVE: scraped(10)}, {Arm.LIVE: scraped(25)}) == {Arm.LIVE: {"drafted": 15}}
