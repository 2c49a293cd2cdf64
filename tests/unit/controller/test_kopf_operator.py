"""What kopf runs: its handlers, the login, and an operator that a developer starts with ``kopf run``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import islice
from pathlib import Path

import kopf
import pytest

from outrider.cluster.resources import MODELS
from outrider.controller import kopf_operator
from outrider.controller.kopf_operator import EndlessBackoffs, login
from outrider.controller.watch import WATCHED
from tests.unit.controller.cluster_server import until
from tests.unit.controller.factories import a_raw_model
from tests.unit.controller.watched_server import a_watched_server


def test_failed_requests_of_a_watch_are_repeated_forever_with_growing_delays() -> None:
    assert list(islice(EndlessBackoffs(), 6)) == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("inside", "called"), [(True, "login_with_service_account"), (False, "login_with_kubeconfig")]
)
def test_kopf_logs_in_as_the_pod_or_by_the_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, inside: bool, called: str
) -> None:
    for name in ("login_with_service_account", "login_with_kubeconfig"):
        monkeypatch.setattr(kopf, name, lambda name=name, **_: name)
    monkeypatch.setattr(kopf_operator, "runs_in_cluster", lambda: inside)
    assert login() == called  # type: ignore[call-arg]


def test_the_handlers_cover_every_watched_kind_and_kopf_keeps_no_state() -> None:
    registry = kopf.get_default_registry()
    assert {handler.param for handler in registry._watching.get_all_handlers()} == set(WATCHED)
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())


async def test_kopf_run_starts_an_operator_that_reconciles(tmp_path: Path) -> None:
    async with a_watched_server(tmp_path) as (server, kubeconfig):
        command = [sys.executable, "-m", "kopf", "run", "-A", "-m", "outrider.controller.kopf_operator"]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "OUTRIDER_METRICS_SOURCE": "PodScrape"}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stderr=asyncio.subprocess.PIPE
        )
        try:
            await server.until_watched(MODELS, 1)
            server.send(MODELS, "ADDED", a_raw_model())
            await until(lambda: server.cluster.conditions("m"))
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0, log.decode()
