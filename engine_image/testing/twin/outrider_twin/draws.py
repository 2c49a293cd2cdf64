"""Random numbers without state: they depend on a key and a number only.

So a text is the same for every client, at any K, in any batch and order.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from math import cos, log, pi, sqrt

_BITS = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15

FIRST_TOKEN = 32
TOKENS = 95
"""The printable part of ASCII, which has these ids in byte-level tokenizers."""


def key_of(*parts: str | int) -> int:
    """A key of 64 bits that depends on all parts."""
    text = "\0".join(map(str, parts)).encode()
    return zlib.crc32(text) << 32 | zlib.crc32(text[::-1])


def prompt_key(token_ids: Iterable[int], seed: int) -> int:
    """The key of the text that follows a prompt."""
    return key_of(zlib.crc32(array("q", token_ids).tobytes()), seed)


def uniform(key: int, number: int) -> float:
    """A number in [0, 1), by the mixing function of SplitMix64."""
    x = (key + (number + 1) * _STEP) & _BITS
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _BITS
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _BITS
    return ((x ^ x >> 31) >> 11) * 2.0**-53


def normal(key: int, number: int) -> float:
    """A number of mean 0 and standard deviation 1, by Box and Muller."""
    radius = sqrt(-2.0 * log(1.0 - uniform(key, 2 * number)))
    return radius * cos(2.0 * pi * uniform(key, 2 * number + 1))


def accepted(key: int, start: int, length: int, chance: Callable[[int], float]) -> int:
    """Number of accepted tokens of a draft.

    start: place in the text of the draft's first token. Each place has one random number for all drafts.
    chance: acceptance rate at a position of the draft, given that all before it were accepted.
    """
    count = 0
    while count < length and uniform(key, start + count) < chance(count):
        count += 1
    return count


def tokens(key: int, start: int, count: int) -> list[int]:
    """The text from a place on. It has no meaning."""
    return [FIRST_TOKEN + (key + place) % TOKENS for place in range(start, start + count)]


def choose(key: int, shares: Sequence[tuple[str, float]]) -> str:
    """One of several names, with the probability of its ratio."""
    left = uniform(key, -1) * sum(share for _, share in shares)
    for name, share in shares:
        left -= share
        if left < 0:
            return name
    return shares[-1][0]
