"""What kopf gets: the login, and how long it may retry."""

from __future__ import annotations

from itertools import islice

import kopf
import pytest

from outrider.controller import handlers
from outrider.controller.handlers import EndlessBackoffs, login


def test_a_failed_request_of_a_watch_is_repeated_for_ever_at_growing_distances() -> None:
    assert list(islice(EndlessBackoffs(), 6)) == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("inside", "called"), [(True, "login_with_service_account"), (False, "login_with_kubeconfig")]
)
def test_watches_log_in_as_the_pod_or_by_the_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, inside: bool, called: str
) -> None:
    for name in ("login_with_service_account", "login_with_kubeconfig"):
        monkeypatch.setattr(kopf, name, lambda name=name, **_: name)
    monkeypatch.setattr(handlers, "runs_in_cluster", lambda: inside)
    assert login() == called
