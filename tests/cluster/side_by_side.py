"""Which engines a test takes, and which tests may run side by side."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ENGINES = ("real", "twin", "none")
"""Real vLLM that computes; real vLLM that computes nothing and takes a GPU's time; no engine comes up."""
HERE = Path(__file__).parent
LONGEST = (
    *("pair/own", "pair", "test_sglang.py", "test_latency_targets.py", "test_canary.py", "commands"),
    *("test_injected.py", "test_relaunch.py", "test_dashboard.py", "test_v2.py", "test_autoscaling.py"),
    *("test_verification.py", "test_alternating_text.py", "test_tutorial.py"),
    *("test_running_pods.py", "test_weights.py", "test_inference_pool.py"),
    *("test_bad_input.py", "test_gitops.py"),
)
"""What starts engines, or waits: it begins first, so that no worker is left with it at the end.

Commands measure, and the first minute, in which many engines start at once, is a bad one for that.
"""


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


def turn(nodeid: str) -> int:
    """When the tests that share a model begin: smaller is earlier."""
    name = one_model(nodeid).removeprefix(f"{PurePosixPath('tests', HERE.name)}/")
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


class OneWorkerForOneModel(LoadScopeScheduling):  # type: ignore[misc]
    """The tests of a file share a model, those of a folder too: one worker runs them, in their order.

    Files begin in the order in which they were collected.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return one_model(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """Once a worker has one test left, which it begins when it knows the next one, and no earlier."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


def one_model(nodeid: str) -> str:
    """What is equal for tests that share a model: ``tests/cluster/test_line.py``, ``tests/cluster/pair``."""
    file = PurePosixPath(nodeid.split("::")[0])
    return str(file if file.parent.name == HERE.name else file.parent)
