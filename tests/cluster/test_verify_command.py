"""``outrider verify`` on an engine that computes, and what it says to a stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import has_condition, wait_for
from tests.cluster.models import Deploy, deploying, model, read_example, read_twin
from tests.cluster.outrider_cli import has_no_override, outrider

pytestmark = [pytest.mark.engine("real", "outputs")]

NAME, STAND_IN = "verify-command", "verify-stand-in"


@pytest.fixture(scope="module")
def computing() -> Iterator[None]:
    """One model for the whole module."""
    with deploying() as deploy:
        started(deploy, NAME, read_example())
        yield


def started(deploy: Deploy, name: str, manifest: dict[str, object]) -> None:
    """The model under this name, once its engines have its table."""
    deploy(manifest, name)
    wait_for(
        "the table is in force",
        lambda: model(name),
        lambda seen: has_condition(seen, "ActuationConverged", "True"),
        seconds=300,
    )


@pytest.mark.usefixtures("computing")
def test_drafts_change_no_answer_of_a_real_engine_and_nothing_is_left() -> None:
    ended = outrider("verify", NAME, "-n", "default", "--tokens", "32", "--samples", "100", seconds=600)
    print(ended.err, ended.out, sep="\n")
    assert ended.code == 0, ended.out + ended.err
    assert ended.out.splitlines()[-1] == "Verdict: lossless, as far as this can tell"
    assert has_no_override(model(NAME))


def test_engines_that_compute_nothing_are_refused(deploy: Deploy) -> None:
    started(deploy, STAND_IN, read_twin())
    wait_for(
        "it is known for a stand-in",
        lambda: model(STAND_IN),
        lambda seen: "simulated" in ((seen or {})["status"].get("speculation") or {}),
        seconds=60,
    )
    ended = outrider("verify", STAND_IN, "-n", "default")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"outrider verify: the engines of {STAND_IN} compute nothing")
