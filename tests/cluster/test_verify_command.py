"""``outrider verify`` on an engine that computes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import has_condition, wait_for
from tests.cluster.models import deploying, model, read_example
from tests.cluster.outrider_cli import has_no_override, outrider

pytestmark = [pytest.mark.engine("real", "outputs")]

NAME = "verify-command"


@pytest.fixture(scope="module")
def computing() -> Iterator[None]:
    """One model for the whole module."""
    manifest = read_example()
    with deploying() as deploy:
        deploy(manifest, NAME)
        wait_for(
            "the table is in force",
            lambda: model(NAME),
            lambda seen: has_condition(seen, "ActuationConverged", "True"),
            seconds=300,
        )
        yield


@pytest.mark.usefixtures("computing")
def test_drafts_change_no_answer_of_a_real_engine_and_nothing_is_left() -> None:
    ended = outrider(
        "verify", NAME, "--yes", "-n", "default", "--tokens", "32", "--samples", "100", seconds=600
    )
    print(ended.err, ended.out, sep="\n")
    assert ended.code == 0, ended.out + ended.err
    assert ended.out.splitlines()[-1] == "Verdict: lossless: no change of answers was found"
    assert has_no_override(model(NAME))
