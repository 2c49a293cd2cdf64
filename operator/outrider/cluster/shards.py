"""Shards: which of several operator processes manages a model, by a hash of its namespace and name. Pure.

The hash is the jump consistent hash of Lamping and Veach (2014). With one shard more, a model stays where it
is or moves to the new shard. With one fewer, only the models of the last shard move.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

MAX_SHARDS = 32
"""Limit of shards. A standby reads the Lease of each every 2 s."""

_FORM = re.compile(r"([1-9][0-9]{0,3})-of-([1-9][0-9]{0,3})", re.ASCII)
_WORD = 2**64 - 1


def shard_of(namespace: str, name: str, shards: int) -> int:
    """Return the number of the shard that manages a model, from 1 to ``shards``."""
    if shards == 1:
        return 1
    state = int.from_bytes(blake2b(f"{namespace}/{name}".encode(), digest_size=8).digest())
    bucket, jump = -1, 0
    while jump < shards:
        bucket = jump
        state = (state * 2862933555777941757 + 1) & _WORD
        jump = int((bucket + 1) * (2**31 / ((state >> 33) + 1)))
    return bucket + 1


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of the models. number: from 1. of: number of all shards."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        """``2-of-4``."""
        return f"{self.number}-of-{self.of}"

    @classmethod
    def read(cls, text: str) -> Shard | None:
        """Parse ``2-of-4``; return None for anything else."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        number, of = map(int, found.groups())
        return cls(number, of) if number <= of else None

    @classmethod
    def all_of(cls, shards: int) -> tuple[Shard, ...]:
        """Return every shard of so many, in their order."""
        return tuple(cls(number, shards) for number in range(1, shards + 1))

    def owns(self, namespace: str, name: str) -> bool:
        """Return True if this shard manages the model."""
        return shard_of(namespace, name, self.of) == self.number

    def lease_name(self, first: str) -> str:
        """Return the name of this shard's Lease. first: that of shard 1, whatever the number of shards."""
        return first if self.number == 1 else f"{first}-{self.number}"


ONLY_SHARD = Shard()
"""The shard of a process that manages every model."""
