"""SGLang's releases are named in one file, and methods keep Outrider's names."""

from __future__ import annotations

import pytest

from outrider_protocol.methods import TRAITS, Tunability
from outrider_protocol.sglang_releases import (
    ADAPTIVE_SINCE,
    ALGORITHMS,
    DEFAULT_RELEASE,
    OLDEST_RELEASE,
    RELEASES,
    parse_release,
)


def test_the_default_release_is_the_newest_that_was_checked() -> None:
    assert max(RELEASES, key=parse_release) == DEFAULT_RELEASE


def test_releases_are_in_order() -> None:
    assert sorted(RELEASES, key=parse_release) == list(RELEASES)
    assert parse_release(RELEASES[0]) == OLDEST_RELEASE


def test_every_adaptive_method_is_one_that_a_schedule_can_change() -> None:
    assert set(ADAPTIVE_SINCE) < set(ALGORITHMS)
    assert {TRAITS[method].tunability for method in ADAPTIVE_SINCE} == {Tunability.LIVE}


@pytest.mark.parametrize(
    ("text", "release"), [("0.5.23", (0, 5, 23)), ("0.5.20.post1", (0, 5, 20)), ("0.5.21+cu130", (0, 5, 21))]
)
def test_a_release_has_three_numbers(text: str, release: tuple[int, int, int]) -> None:
    assert parse_release(text) == release


def test_a_text_without_three_numbers_is_no_release() -> None:
    with pytest.raises(ValueError, match=r"0\.5 is not a release of SGLang"):
        parse_release("0.5")
