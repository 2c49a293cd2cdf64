"""What becomes of engines that serve while Helm removes and installs their operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.engines import pods_of
from tests.cluster.helm import CHART, RELEASE, WAIT, helm
from tests.cluster.kubectl import get, wait_for
from tests.cluster.operator_pod import operator_pods
from tests.cluster.pair import NAME, look, rules
from tests.cluster.sending import Sender

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.engine("twin", "starts"),
    pytest.mark.alone("restarts"),
]

CRD = "speculativemodels.outrider.dev"


@pytest.fixture
def values(tmp_path: Path) -> Iterator[Path]:
    """Those of the release, which afterwards is as it was before, whatever happened to it."""
    file = tmp_path / "values.yaml"
    file.write_text(helm("get", "values", RELEASE, "-o", "yaml"))
    yield file
    helm("upgrade", "--install", RELEASE, str(CHART), "--values", str(file), *WAIT)


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
