"""One model for the whole folder: no command needs an engine of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.commands import NAME, SCHEDULE, TABLE, look
from tests.cluster.kubectl import Object, has_condition, wait_for
from tests.cluster.models import deploying, in_force, read_twin


@pytest.fixture(scope="package", autouse=True)
def tuned() -> Iterator[None]:
    """A model that Prometheus knows, with its table in force."""
    manifest = read_twin()
    manifest["spec"]["speculation"] |= {"tuning": {"mode": "Auto"}, "schedule": SCHEDULE}
    with deploying() as deploy:
        deploy(manifest, NAME)
        wait_for("the table is in force, and it is measured", look, _measured, seconds=300)
        yield


def _measured(seen: Object | None) -> bool:
    return in_force(TABLE)(seen) and has_condition(seen, "MetricsAvailable", "True")
