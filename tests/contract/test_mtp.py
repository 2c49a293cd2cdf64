"""Multi-token prediction in real vLLM: a layer of the target's own checkpoint drafts. K changes while it
runs, and no token does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.models.mimo import assemble
from examples.models.pad import WEIGHTS
from tests.contract import quick_start
from tests.contract.answers import PROMPTS, TOKENS, Answer, Comparison, answers_alone, compare
from tests.contract.engine import Engine, Launch, running_engine
from tests.contract.factories import a_constant, a_push
from tests.contract.test_eagle3 import CHANCE, accepted, counted_at
from tests.contract.test_equality import across_changes, assert_equal_up_to_noise

pytestmark = pytest.mark.contract

CANDIDATES = (0, 1, 2)
"""vLLM runs the one layer again for each further token."""


@pytest.fixture(scope="module")
def mtp(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The tiny target as a MiMo model with its layer. No drafter is named."""
    folder = tmp_path_factory.mktemp("mtp")
    model = assemble(WEIGHTS, folder / "mimo")
    launch = Launch(
        speculation={"method": "mtp"},
        candidates=CANDIDATES,
        plugins=(quick_start.NAME,),
        flags=("--model", str(model)),
    )
    with running_engine(plugin, folder, launch) as engine:
        yield engine


def test_it_can_be_tuned(mtp: Engine) -> None:
    state = mtp.first_state
    assert (state["method"], state["runner"], state["problems"]) == ("mtp", "V1", [])
    assert state["liveTuning"] == {"possible": True, "reason": None}
    assert isinstance(state["selfTest"], dict)
    assert state["selfTest"]["state"] == "Passed"


def test_it_drafts_as_many_tokens_as_the_table_says_and_most_are_accepted(mtp: Engine, term: int) -> None:
    """0, then 2, then 1, without a restart; every sum agrees with vLLM's own."""
    for epoch, k in enumerate((0, 2, 1), start=1):
        counted = counted_at(mtp, term, epoch, k, f"mtp{k}_")
        shares = accepted(counted)
        print(k, shares)
        assert sorted(shares) == [str(position) for position in range(k)]
        assert all(share > 2 * CHANCE for share in shares.values())
        assert not counted.disagreements()


def test_with_k_0_the_layer_follows_every_step(mtp: Engine, term: int) -> None:
    """What it misses it could not read later: that takes hidden states, which nobody keeps."""
    counted = counted_at(mtp, term, 1, 0, "mtp_zero")
    assert counted.total("outrider:steps_total", k="0") >= TOKENS
    assert counted.total("outrider:drafter_steps_skipped_total") == 0


def test_a_layer_that_drafts_changes_no_token(mtp: Engine, term: int, plain: list[Answer]) -> None:
    compared = Comparison((), ())
    for epoch, k in enumerate((0, 2, 1), start=1):
        mtp.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        compared += compare(plain[:2], answers_alone(mtp, PROMPTS[:2]))
    changed, changes = across_changes(mtp, term, (0, 2, 1))
    compared += compare(plain, changed)
    assert changes > len(CANDIDATES)
    assert_equal_up_to_noise(compared, "mtp", changes=changes)
