"""Which engines a test takes, and which tests may run side by side."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

ENGINES = ("real", "twin", "none")
"""Real vLLM that computes; real vLLM that computes nothing and takes a GPU's time; no engine comes up."""
HERE = Path(__file__).parent


def mark(item: pytest.Item) -> None:
    """Hold a test of this folder to its markers.

    Raises:
        pytest.UsageError: the test does not say which engine it takes, and why.
    """
    item.add_marker(pytest.mark.cluster)
    engine = item.get_closest_marker("engine")
    if engine is None or len(engine.args) != 2 or engine.args[0] not in ENGINES:
        kinds = ", ".join(ENGINES)
        raise pytest.UsageError(f"{item.nodeid}: mark it with engine(one of {kinds}; why in a word)")


class OneWorkerForOneModel(LoadScopeScheduling):  # type: ignore[misc]
    """The tests of a file share a model, those of a folder too: one worker runs them, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return one_model(nodeid)


def one_model(nodeid: str) -> str:
    """What is equal for tests that share a model: ``tests/cluster/test_line.py``, ``tests/cluster/pair``."""
    file = PurePosixPath(nodeid.split("::")[0])
    return str(file if file.parent.name == HERE.name else file.parent)
