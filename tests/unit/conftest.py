"""What all unit tests share: what would be done anew in test after test is done once, or not at all."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def commands_are_put_together_once() -> Iterator[None]:
    """Typer's runner does it in every call, from all signatures, which takes longer than most commands."""
    from typer import main, testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", cache(main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def authorities_of_this_machine_are_not_read() -> Iterator[None]:
    """Every client of an API server reads them all, and none of them signed a server of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)
        yield
