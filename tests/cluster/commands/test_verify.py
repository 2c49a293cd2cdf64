"""What ``outrider verify`` says to a stand-in."""

from __future__ import annotations

import pytest

from tests.cluster.commands import NAME, look
from tests.cluster.kubectl import wait_for
from tests.cluster.models import speculation
from tests.cluster.outrider_cli import outrider

pytestmark = [pytest.mark.engine("twin", "itself")]


def test_engines_that_compute_nothing_are_refused() -> None:
    wait_for("it is known for a stand-in", look, lambda seen: "simulated" in speculation(seen), seconds=60)
    ended = outrider("verify", NAME, "--yes", "-n", "default")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"outrider verify: the engines of {NAME} are simulated")
