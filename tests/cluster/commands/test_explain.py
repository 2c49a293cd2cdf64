"""``outrider explain`` against a model in the cluster. `test_line` has the past of one that is retuned."""

from __future__ import annotations

import pytest

from outrider.cli.common.output import in_ranges
from tests.cluster.commands import NAME, TABLE, look
from tests.cluster.kubectl import Object
from tests.cluster.outrider_cli import outrider

pytestmark = [pytest.mark.engine("twin", "starts")]

TUNING = ("TuningActive", "ActuationConverged", "MetricsAvailable")


def test_it_shows_the_table_in_force_and_the_state_of_tuning() -> None:
    ended = outrider("explain", NAME, "-n", "default")
    assert (ended.code, ended.err) == (0, "")
    assert in_ranges(TABLE) in ended.out
    assert all(kind in ended.out for kind in TUNING)


def test_json_says_the_same_as_the_api_server() -> None:
    told, seen = outrider("explain", NAME, "-n", "default", "--json").told["status"], look()
    assert seen is not None
    assert told["speculation"]["scheduleSummary"] == seen["status"]["speculation"]["scheduleSummary"]
    assert standing(told) == standing(seen["status"])


def test_a_time_that_is_yet_to_come_is_one_line() -> None:
    ended = outrider("explain", NAME, "-n", "default", "--at", "2999-01-01T00:00:00Z")
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err
        == "outrider explain: --at is 2999-01-01T00:00:00Z, which is in the future; write a past time\n"
    )


def standing(status: Object) -> dict[str, str]:
    """The conditions of tuning, and where they are."""
    return {each["type"]: each["status"] for each in status["conditions"] if each["type"] in TUNING}
