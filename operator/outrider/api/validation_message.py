"""What is wrong with what a program wrote, as the validation words it, without the values."""

from __future__ import annotations

from pydantic import ValidationError

_MAX_ERRORS = 256
"""Each of them becomes a dictionary where the first one is wanted, since pydantic has no way to one alone."""


def first_validation_message(error: ValidationError, *, whole: str) -> str:
    """The first mistake as ``rows[0].k: what``; the value is left out.

    whole: what to call the input where all of it is wrong.
    """
    if error.error_count() > _MAX_ERRORS:
        return f"{whole}: {error.error_count()} errors, of which at most {_MAX_ERRORS} are read"
    first = error.errors(include_input=False, include_url=False)[0]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"{''.join(parts).lstrip('.') or whole}: {first['msg']}"
