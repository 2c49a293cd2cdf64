"""What becomes of engines that serve while Helm changes, rolls back, removes and installs their operator."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.engines import pods_of, ready_pods, state
from tests.cluster.kubectl import get, wait_for
from tests.cluster.operator_pod import NAMESPACE, operator_pods
from tests.cluster.pair import NAME, look, rules
from tests.cluster.sending import Sender

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.engine("twin", "starts"),
    pytest.mark.alone("restarts"),
]

RELEASE = "outrider"
CHART = Path(__file__).parents[3] / "charts" / "outrider"
CRD = "speculativemodels.outrider.dev"
WAIT = ("--wait", "--timeout", "120s")
IN_PLACE = ("-n", NAMESPACE)


def helm(*words: str) -> str:
    """What it prints."""
    done = subprocess.run(["helm", *words, *IN_PLACE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
    return done.stdout


@pytest.fixture
def values(tmp_path: Path) -> Iterator[Path]:
    """Those of the release, which afterwards is as it was before, whatever happened to it."""
    file = tmp_path / "values.yaml"
    file.write_text(helm("get", "values", RELEASE, "-o", "yaml"))
    yield file
    helm("upgrade", "--install", RELEASE, str(CHART), "--values", str(file), *WAIT)


@pytest.fixture
def engines(pair: Sender) -> Callable[[], dict[str, str]]:  # noqa: ARG001  it has them
    """The engine processes, by pod."""
    return lambda: {pod: str(state(pod)["bootId"]) for pod in ready_pods(NAME)}


async def test_an_upgrade_and_its_rollback_restart_no_engine(
    values: Path, engines: Callable[[], dict[str, str]]
) -> None:
    before, operator = engines(), operator_pods()
    changed = ("--values", str(values), "--set", "podAnnotations.changed=yes", *WAIT)
    helm("upgrade", RELEASE, str(CHART), *changed)
    assert operator_pods() != operator
    rules(2)
    helm("rollback", RELEASE, *WAIT)
    rules(3)
    assert engines() == before


async def test_engines_serve_on_without_the_release_and_are_ruled_again_by_the_next(
    pair: Sender, values: Path, engines: Callable[[], dict[str, str]]
) -> None:
    before = engines()
    helm("uninstall", RELEASE, "--wait")
    wait_for("the operator is gone", operator_pods, lambda left: left is None, seconds=60)
    assert get("crd", CRD) is not None
    assert look() is not None
    sent = await pair.send(streams=2, seconds=2)
    assert (sent.failed, sent.errors) == (0, ())
    helm("install", RELEASE, str(CHART), "--values", str(values), *WAIT)
    rules(1)
    assert engines() == before
    assert len(pods_of(NAME)) == 2
