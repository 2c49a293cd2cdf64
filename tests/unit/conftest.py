"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def commands_are_put_together_once() -> Iterator[None]:
    """Typer's runner does it anew in every call, from all signatures, which takes longer than most commands."""
    from typer import main, testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", cache(main.get_command))
        yield
