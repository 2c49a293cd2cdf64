"""Numbers and schedules in the words of people."""

from __future__ import annotations

import pytest

from outrider.cli.common.output import counted, in_ranges


@pytest.mark.parametrize(("number", "said"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_one_is_no_plural(number: int, said: str) -> None:
    assert counted(number, "pod") == said


@pytest.mark.parametrize(
    ("compact", "said"),
    [
        ("8:3,32:1,*:0", "1-8:3 9-32:1 33+:0"),
        ("1:5,2:3,*:0", "1:5 2:3 3+:0"),
        ("*:2", "1+:2"),
        ("-", "-"),
    ],
)
def test_a_schedule_is_read_by_ranges_of_the_batch_size(compact: str, said: str) -> None:
    assert in_ranges(compact) == said
