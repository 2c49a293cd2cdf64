"""Which texts may be secret. An import prints none of them, neither in the manifest nor in a message."""

from __future__ import annotations

import re

_NAME = re.compile(
    r"(^|[_-])(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|API_?KEY|ACCESS_?KEY(_?ID)?|PRIVATE_?KEY|"
    r"CREDENTIALS?|AUTHORIZATION|BEARER|DSN)($|[_-])",
    re.IGNORECASE,
)
_PLACE = re.compile(r"(^|[_-])(FILE|PATH|DIR|FOLDER|NAME|PARALLELISM|LENGTH|LIMIT)$", re.IGNORECASE)
"""Variables that say where a secret lies, and not what it is."""
_PLAIN = re.compile(r"(|[0-9.]+|true|false|yes|no|on|off|none|\$\([A-Za-z0-9_.-]+\))", re.IGNORECASE)

_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_-]{16,}|\bgh[a-z]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|"
    r"\bnvapi-[A-Za-z0-9_-]{16,}|\bglpat-[A-Za-z0-9_-]{16,}|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bxox[a-z]-[A-Za-z0-9-]{10,}|"
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|-----BEGIN |://[^/\s:@]+:[^/\s:@]+@|"
    r"(?i:\bbearer\s+[A-Za-z0-9._-]{8,}|(api[_-]?key|token|password|secret)[\"']?\s*[:=]\s*[\"']?[^\s\"'$]{8,})"
)
"""Tokens and keys of the services that engines use, and URLs with a password."""


def is_secret(name: str, value: object) -> bool:
    """Whether the value of a variable, or of a flag, may be secret."""
    if not isinstance(value, str) or _PLAIN.fullmatch(value.strip()):
        return False
    named = _NAME.search(name) is not None and _PLACE.search(name) is None
    return named or holds_secret(value)


def holds_secret(value: str) -> bool:
    """Whether a text has something in it that looks like a token, a key or a password."""
    return _VALUE.search(value) is not None
