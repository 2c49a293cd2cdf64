"""The releases of SGLang that Outrider supports, and its names of methods, from ``sglang_releases.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from outrider_protocol.methods import Method

Release: TypeAlias = tuple[int, int, int]
"""Major, minor and patch number. Patch releases of SGLang change its inner names, too."""


def parse_release(text: str) -> Release:
    """The three numbers of a version such as ``0.5.23`` or ``0.5.23.post1+cu130``.

    Raises:
        ValueError: it does not start with three numbers.
    """
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise ValueError(f"{text} is not a release of SGLang")
    return int(match[1]), int(match[2]), int(match[3])


_FILE: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("sglang_releases.toml").read_text(encoding="utf-8")
)

RELEASES: tuple[str, ...] = tuple(_FILE["releases"])
"""Every release whose source was checked, oldest first."""
DEFAULT_RELEASE: str = _FILE["default"]
OLDEST_RELEASE: Release = parse_release(RELEASES[0])
ALGORITHMS: Mapping[Method, str] = {
    Method(name): algorithm for name, algorithm in _FILE["algorithms"].items()
}
"""Method -> the value of ``--speculative-algorithm``, for all that SGLang has."""
ADAPTIVE_SINCE: Mapping[Method, Release] = {
    Method(name): parse_release(release) for name, release in _FILE["adaptive"].items()
}
"""Method -> the first release whose adaptive mode changes its steps between two rounds."""
