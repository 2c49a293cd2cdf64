"""Which tests of the cluster may run side by side."""

from __future__ import annotations

from typing import cast

import pytest

from tests.cluster.side_by_side import HERE, LONGEST, mark, one_model, turn


class AnItem:
    """A collected test with one marker, or none."""

    nodeid = "tests/cluster/test_a.py::test_b"

    def __init__(self, marker: pytest.MarkDecorator | None) -> None:
        self._marker = marker
        self.added: list[pytest.MarkDecorator] = []

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.added.append(marker)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._marker.mark if self._marker and self._marker.mark.name == name else None


def test_the_tests_of_a_file_share_a_model_and_those_of_a_folder_too() -> None:
    assert one_model("tests/cluster/test_line.py::test_a[x/y]") == "tests/cluster/test_line.py"
    assert one_model("tests/cluster/pair/test_ends.py::test_a") == "tests/cluster/pair"
    assert one_model("tests/cluster/pair/test_sources.py::test_b") == "tests/cluster/pair"
    assert one_model("tests/cluster/pair/own/test_upgrade.py::test_c") == "tests/cluster/pair/own"


def test_every_file_that_is_said_to_take_long_is_there() -> None:
    assert [name for name in LONGEST if not (HERE / name).exists()] == []


def test_what_takes_long_begins_before_what_does_not() -> None:
    short = turn("tests/cluster/test_rights.py::test_a")
    long = [turn(f"tests/cluster/{name}::test_a") for name in LONGEST if name.endswith(".py")]
    folders = [turn("tests/cluster/pair/own/test_a.py::test_a"), turn("tests/cluster/pair/test_a.py::test_a")]
    assert long == sorted(long)
    assert folders == [0, 1]
    assert max(long) < short


@pytest.mark.parametrize(
    "marker",
    [None, pytest.mark.engine("twin"), pytest.mark.engine("gpu", "starts")],
    ids=["no marker", "no reason", "unknown"],
)
def test_a_test_that_does_not_say_which_engine_it_takes_and_why_is_not_collected(
    marker: pytest.MarkDecorator | None,
) -> None:
    with pytest.raises(pytest.UsageError, match="mark it with engine"):
        mark(cast(pytest.Item, AnItem(marker)))


def test_every_test_of_the_folder_needs_the_cluster() -> None:
    item = AnItem(pytest.mark.engine("twin", "starts"))
    mark(cast(pytest.Item, item))
    assert [marker.name for marker in item.added] == ["cluster"]
