"""What each method does on each runner and version of vLLM when a step asks for another K.

The engine plugin holds a table of the same form, and decides by it in the engine. Neither imports the other,
and a test compares them for every combination.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from outrider.api.methods import PIPELINED, Method

Version: TypeAlias = tuple[int, int]
"""Major and minor number. vLLM's patch releases change none of this."""

OLDEST_VERSION: Version = (0, 26)
NEWEST_VERSION: Version = (0, 33)
"""The vLLM versions whose source was checked, both inclusive."""


class Runner(StrEnum):
    """vLLM's two model runners, by the value of ``VLLM_USE_V2_MODEL_RUNNER``."""

    V1 = "0"
    V2 = "1"


class Response(StrEnum):
    """What a method does when a step asks for another K than the configured one."""

    FOLLOWS = "follows"
    """It drafts K tokens."""
    FULL_LENGTH = "full length"
    """It drafts the configured number of tokens; only verification shrinks."""
    BREAKS = "breaks"
    """The engine ends, or mixes up the drafts of different requests."""
    TABLE_DROPPED = "table dropped"
    """vLLM drops the schedule at the start."""
    ABSENT = "absent"
    """This runner has no such method."""


Spans: TypeAlias = Mapping[Version, Response]
"""First version -> the response from there on."""

_FOLLOWS: Spans = {(0, 26): Response.FOLLOWS}
_FULL_LENGTH: Spans = {(0, 26): Response.FULL_LENGTH}
_BREAKS: Spans = {(0, 26): Response.BREAKS}
_V2_FOLLOWS_LATER: Spans = {(0, 26): Response.FULL_LENGTH, (0, 32): Response.FOLLOWS}

MATRIX: Mapping[Method, Mapping[Runner, Spans]] = {
    Method.NONE: {},
    Method.DRAFT_MODEL: {Runner.V1: _FOLLOWS, Runner.V2: {(0, 31): Response.FULL_LENGTH}},
    Method.EAGLE: {Runner.V1: _FOLLOWS, Runner.V2: _V2_FOLLOWS_LATER},
    Method.EAGLE3: {Runner.V1: _FOLLOWS, Runner.V2: _V2_FOLLOWS_LATER},
    Method.P_EAGLE: {Runner.V1: _BREAKS},
    Method.PARD: {Runner.V1: _BREAKS},
    # Of models with one prediction module. Those with several draft the full length on V2.
    Method.MTP: {Runner.V1: _FOLLOWS, Runner.V2: _V2_FOLLOWS_LATER},
    Method.NGRAM: {Runner.V1: _FOLLOWS, Runner.V2: {(0, 32): Response.FULL_LENGTH}},
    Method.NGRAM_GPU: {
        Runner.V1: {(0, 26): Response.BREAKS, (0, 33): Response.TABLE_DROPPED},
        Runner.V2: {(0, 32): Response.FULL_LENGTH},
    },
    Method.SUFFIX: {Runner.V1: {(0, 26): Response.BREAKS, (0, 33): Response.TABLE_DROPPED}},
    Method.DFLASH: {Runner.V1: _FOLLOWS, Runner.V2: _FULL_LENGTH},
    Method.DSPARK: {Runner.V2: _FULL_LENGTH},
    Method.MEDUSA: {Runner.V1: {(0, 26): Response.BREAKS, (0, 33): Response.ABSENT}},
    Method.MLP_SPECULATOR: {},
    Method.CUSTOM_CLASS: {Runner.V1: {(0, 26): Response.FULL_LENGTH, (0, 33): Response.TABLE_DROPPED}},
}
"""Method -> runner -> response by version; what is not named is absent."""

WITH_PIPELINE: Mapping[Method, Version] = dict.fromkeys(PIPELINED, (0, 30))
"""The first version whose V2 runner drafts by a method with pipeline stages. V1 never does: stages without
the drafter read it all the same. Source: ``PPHandler`` of V2, ``_build_attention_metadata`` of V1."""


def response(method: Method, runner: Runner, version: Version) -> Response:
    """The entry of `MATRIX` for one engine."""
    spans = MATRIX[method].get(runner, {})
    since = max((first for first in spans if first <= version), default=None)
    return Response.ABSENT if since is None else spans[since]


def known_versions() -> tuple[Version, ...]:
    """Every version that was checked, rising."""
    major, newest = NEWEST_VERSION
    return tuple((major, minor) for minor in range(OLDEST_VERSION[1], newest + 1))


def parse_version(text: str) -> Version:
    """Major and minor number of a version such as ``0.33.0`` or ``0.33.0.post1``.

    Raises:
        ValueError: it does not start with two numbers.
    """
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def version_text(version: Version) -> str:
    """``0.33`` for (0, 33)."""
    return ".".join(str(number) for number in version)
