"""Seeds of a published run: derived from its commit, so that no change can be tuned on what the run draws.

A commit's hash depends on its whole content. A change to the tuner therefore changes every trace, text and
engine that the next published run draws.
"""

from __future__ import annotations

import hashlib
import re
import subprocess

_HASH = re.compile("[0-9a-f]{40}")


def full_hash(commit: str) -> str:
    """The 40 digits of a commit of this repository.

    Raises:
        ValueError: this repository does not have it.
    """
    if _HASH.fullmatch(commit):
        return commit
    said = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode:
        raise ValueError(f"this repository has no commit {commit}; fetch it, or give all 40 digits")
    return said.stdout.strip()


def seed(commit: str, *names: object) -> int:
    """A number of 63 bits. commit: all 40 digits. names: what the seed is for."""
    text = "/".join((commit, *map(str, names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
