"""How a secret might be written down, so that a search for it finds every form."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping

_SHORTEST = 16
"""Characters; what is shorter is found by chance."""


def spellings(secret: bytes) -> frozenset[str]:
    """The text itself, its lines, and its usual encodings; parts of them that are too short are left out."""
    text = secret.decode(errors="replace")
    found = {text, base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode(), secret.hex()}
    found |= {line.strip() for line in text.splitlines() if not line.startswith("-----")}
    return frozenset(spelling for spelling in found if len(spelling) >= _SHORTEST)


def places(secret: bytes, written: Mapping[str, str]) -> list[str]:
    """Where a secret stands, by the names of the texts. Blanks and escaped line ends do not hide it."""
    wanted = {_squeezed(spelling) for spelling in spellings(secret)}
    return [name for name, text in written.items() if _holds(_squeezed(text), wanted)]


def _holds(text: str, wanted: Iterable[str]) -> bool:
    return any(spelling in text for spelling in wanted)


def _squeezed(text: str) -> str:
    return re.sub(r"\\n|\s", "", text)
