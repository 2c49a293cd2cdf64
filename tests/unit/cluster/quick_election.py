"""Elections without whole seconds of waiting: the library's own check refuses shorter pauses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider.cluster import lease, term_lock


def hurry(
    monkeypatch: pytest.MonkeyPatch, *, retry: float = 0.02, lasts: int | None = None, deadline: float = 10
) -> None:
    """All in seconds. lasts: of a Lease, by default as long as always."""
    monkeypatch.setattr(lease, "Config", _unchecked)
    for module in (lease, term_lock):
        monkeypatch.setattr(module, "RETRY_SECONDS", retry)
    monkeypatch.setattr(lease, "RENEW_DEADLINE_SECONDS", deadline)
    if lasts is not None:
        for module in (lease, term_lock):
            monkeypatch.setattr(module, "LEASE_SECONDS", lasts)


def _unchecked(lock: object, **durations: Any) -> SimpleNamespace:
    return SimpleNamespace(lock=lock, **durations)
