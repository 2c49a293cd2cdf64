"""Engines of the V2 runner by Triton's interpreter, and load that is short enough for them.

A step takes about 50 ms, so a test makes few tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from examples.models.mimo import assemble
from examples.models.pad import WEIGHTS
from outrider_protocol.releases import Runner
from tests.contract import asynchronous, drafter_witness, quick_start
from tests.contract.answers import PROMPTS, Answer, Comparison, answers_together, compare
from tests.contract.engine import DRAFT_MODEL, EAGLE3, Engine, Launch
from tests.contract.equality import MANY_ACCEPTED, Enough, across_changes, assert_equal_up_to_noise
from tests.contract.gaps import push
from tests.contract.measuring import Samples, run_streams, scrape, settled

CANDIDATES = (0, 1, 2, 3)
STREAMS = 3
SHORT = 16
"""Tokens of a request."""
FEW = PROMPTS[:4]
SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"
SCHEDULING = (SYNCHRONOUS, ASYNCHRONOUS)
NGRAM_GPU: Mapping[str, object] = {"method": "ngram_gpu", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
"""vLLM has asynchronous scheduling for n-gram under this name only."""


def a_launch(
    scheduling: str, *, speculation: Mapping[str, object] | None = EAGLE3, plugins: Sequence[str] = ()
) -> Launch:
    """A launch on V2. scheduling: one of `SCHEDULING`. plugins: of `helper_plugins`."""
    return Launch(
        speculation,
        candidates=CANDIDATES,
        plugins=(quick_start.NAME, *plugins),
        runner=Runner.V2,
        asynchronous=scheduling == ASYNCHRONOUS,
    )


def an_mtp_launch(scheduling: str, folder: Path) -> Launch:
    """The tiny target with one layer that drafts, as a MiMo model in this folder."""
    checkpoint = assemble(WEIGHTS, folder / "mimo")
    launch = a_launch(scheduling, speculation={"method": "mtp"})
    return replace(launch, candidates=(0, 1, 2), flags=("--model", str(checkpoint)))


def a_launch_of(method: str, scheduling: str, folder: Path) -> Launch:
    """A launch of one of these methods on V2."""
    if method == "mtp":
        return an_mtp_launch(scheduling, folder)
    speculation = {"eagle3": EAGLE3, "draft_model": DRAFT_MODEL, "ngram_gpu": NGRAM_GPU}[method]
    return a_launch(scheduling, speculation=speculation)


def witnessed(folder: Path, *, method: str = "eagle3", **variables: str) -> Launch:
    """A launch under asynchronous scheduling, as on a GPU, with a witness in its drafter."""
    folder.mkdir(exist_ok=True)
    launch = a_launch_of(method, ASYNCHRONOUS, folder)
    return replace(
        launch,
        plugins=(*launch.plugins, drafter_witness.NAME),
        variables={drafter_witness.VARIABLE: str(folder / drafter_witness.FILE)} | variables,
        flags=(*launch.flags, "--block-size", "32"),
    )


def is_asynchronous(engine: Engine) -> bool:
    """Whether its steps have been scheduled while the step before was computed."""
    return asynchronous.QUEUED in engine.log_file.read_text(errors="replace")


def assert_tunable(engine: Engine, method: str) -> None:
    """On V2, after a self-test of every candidate."""
    state = engine.first_state
    assert (state["method"], state["runner"], state["problems"]) == (method, "V2", [])
    assert state["liveTuning"] == {"possible": True, "reason": None}
    assert isinstance(state["selfTest"], dict)
    assert (state["selfTest"]["state"], state["selfTest"]["failedK"]) == ("Passed", [])


def counted_at(engine: Engine, term: int, epoch: int, k: int, name: str) -> Samples:
    """What a short load counts under one K."""
    push(engine, term, epoch, k)
    before = scrape(engine)
    tokens = run_streams(engine, streams=STREAMS, requests=1, max_tokens=SHORT, name=name)
    return settled(engine, before=before, tokens=tokens)


def assert_drafts_follow(engine: Engine, term: int, *, ks: Sequence[int] = (0, 3, 1)) -> None:
    """Each K in turn without a restart; every sum agrees with vLLM's own."""
    for epoch, k in enumerate(ks, start=1):
        counted = counted_at(engine, term, epoch, k, f"drafts{k}_")
        assert sorted(counted.by("outrider:draft_tokens_total", "position")) == [str(i) for i in range(k)]
        assert not counted.disagreements()


def assert_each_k_runs(
    engine: Engine, term: int, plain: Sequence[Answer], ks: Sequence[int], name: str
) -> float:
    """Each K in turn without a restart: its drafts, the tokens of no speculation, and vLLM's own sums.

    Returns:
        accepted tokens, of `SHORT` tokens of each of `FEW` requests under each K.
    """
    accepted = 0.0
    compared, expected = Comparison((), ()), [answer[:SHORT] for answer in plain[: len(FEW)]]
    for epoch, k in enumerate(ks, start=1):
        push(engine, term, epoch, k)
        before = scrape(engine)
        answers = answers_together(engine, FEW, tokens=SHORT)
        counted = settled(engine, before=before, tokens=len(FEW) * SHORT)
        assert sorted(counted.by("outrider:draft_tokens_total", "position")) == [str(i) for i in range(k)]
        assert not counted.disagreements()
        accepted += counted.total("outrider:accepted_tokens_total")
        compared += compare(expected, answers)
    assert_equal_up_to_noise(compared, f"v2_{name}_each")
    return accepted


def assert_pushes_change_no_token(
    engine: Engine,
    term: int,
    plain: Sequence[Answer],
    candidates: Sequence[int],
    name: str,
    *,
    enough: Enough = MANY_ACCEPTED,
) -> None:
    """Few answers at once, while the table changes all the time, against an engine without speculation."""
    answers, changes = across_changes(engine, term, candidates, FEW, enough=enough)
    assert_equal_up_to_noise(compare(plain[: len(FEW)], answers), f"v2_{name}", changes=changes)
