"""What all tests share."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is not a defect: properties are checked without a stopwatch. Whether enough examples reach an
# assertion stays checked.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Every run of a change meets the same examples, so that what it did not touch cannot refuse it.
# `make explore` looks for others.
settings.register_profile("outrider", UNHURRIED, derandomize=True)
settings.register_profile("explore", UNHURRIED, max_examples=500, print_blob=True)
settings.load_profile("outrider")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Modules and collected tests stay to the end: the garbage collector need not look at them, not while
    they come up and not in every full collection afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
