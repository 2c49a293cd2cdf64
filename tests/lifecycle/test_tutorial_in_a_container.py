"""The tutorial on a machine that has only what it lists, word for word: nothing else, and nothing left out.

The machine is a Debian container with a Docker Engine and a cluster of its own (`fresh_machine.py`), so
`make cluster` does its work, and leaves the cluster outside alone. The source is a clone of the last commit;
what is not committed is not looked at. The engine computes. `make demo`, which drives the same cluster for a
quarter of an hour, is left to `make demo`. Mirrors of Debian and of Python packages must be reachable.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.tutorial import NAME, Typist, steps, what_is_needed
from tests.lifecycle.fresh_machine import a_fresh_machine, clone

SECONDS = 3600
DECISION_SECONDS = 120
DECIDED = f"""
for second in $(seq {DECISION_SECONDS}); do
  [ -n "$(kubectl get specmodel {NAME} -o 'jsonpath={{.status.decisions}}')" ] && break
  sleep 1
done
kubectl get specmodel {NAME} -o 'jsonpath={{.status.decisions[*].reason}}'
"""


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    with a_fresh_machine(tmp_path) as machine, machine.shell() as shell:
        yield Typist(shell)


@pytest.mark.timeout(SECONDS)
def test_a_newcomer_types_the_tutorial_and_gets_what_it_says(typist: Typist) -> None:
    began = time.monotonic()

    def took(what: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s: {what}")

    typist.types(what_is_needed())
    typist.types(clone())
    took("the listed packages, and the source")
    told = typist.takes("0")
    took("make cluster")
    assert re.search(r"\] operator +ready", told)
    assert f"{NAME} condition met" in typist.takes("1")
    took("the model serves")
    answers = typist.takes("2")
    assert '"object":"text_completion"' in answers
    assert '"object":"chat.completion"' in answers
    typist.takes("3")
    took("the load is over")
    assert typist.types(DECIDED).strip()
    told = typist.takes("4")
    assert f"default/{NAME}: Serving, 1/1 pods" in told
    assert "Last decisions" in told
    assert "Paused" in typist.takes("5")
    assert f'"{NAME}" deleted' in typist.takes("6")
    assert len(steps()) == 7
    took("all of it")
