"""Fixtures of the controller's tests."""

from __future__ import annotations

import asyncio

import pytest

from outrider.controller import leader, other_installations, process, work_queue
from outrider.controller.watch import ClusterWatch
from tests.unit.cluster.quick_election import hurry
from tests.unit.controller.fake_loop import a_kind_of_loop


@pytest.fixture
def quick_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(other_installations, "LOOK_SECONDS", 0.05)
    for module in (leader, other_installations, work_queue):
        monkeypatch.setattr(module, "backoff_seconds", lambda _: 0.05)
    monkeypatch.setattr(ClusterWatch, "watch_forever", _forever)
    monkeypatch.setattr(process, "serve", _forever)
    monkeypatch.setattr(leader, "TuningLoop", a_kind_of_loop())


async def _forever(*_: object, **__: object) -> None:
    await asyncio.Event().wait()
