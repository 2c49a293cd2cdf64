"""What is wrong with what was read.

An object of a user is told of in the words of its API, without names of Python or of its libraries; what
programs wrote, as the validation says it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "there is no such field; look for a typo",
    "string_type": "must be a text",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""Kind of an error -> what to say."""
_OTHERWISE = "cannot be read; write it plainer"


_MOST_ERRORS = 256
"""Each of them becomes a dictionary where the first one is wanted, since pydantic has no way to one alone."""


def complaint(error: ValidationError, raw: object) -> str:
    """The first thing that is wrong with ``raw``, and the field where it is."""
    if error.error_count() > _MOST_ERRORS:
        return f"{_too_many(error)}; {_OTHERWISE}"
    details = error.errors(include_url=False)
    path = _path(details[0], raw)
    # One value that suits none of several forms gives an error for each form.
    alike = [_sentence(detail) for detail in details if _path(detail, raw) == path]
    text = ", or ".join(dict.fromkeys(alike)).replace(", or must be ", ", or ")
    return f"{path}: {text}" if path and not text.startswith(("spec.", "metadata.")) else text


def first_complaint(error: ValidationError, *, whole: str) -> str:
    """The first thing that is wrong with what a program wrote: ``rows[0].k: what``, its value left out.

    whole: what to call it where it is wrong as a whole.
    """
    if error.error_count() > _MOST_ERRORS:
        return f"{whole}: {_too_many(error)}"
    first = error.errors(include_input=False, include_url=False)[0]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"{''.join(parts).lstrip('.') or whole}: {first['msg']}"


def _too_many(error: ValidationError) -> str:
    return f"{error.error_count()} errors, of which at most {_MOST_ERRORS} are read"


def _sentence(detail: ErrorDetails) -> str:
    return _WORDS.get(detail["type"], _OTHERWISE).format(**detail.get("ctx", {}))


def _path(detail: ErrorDetails, raw: object) -> str:
    """Only fields, keys and positions of the object: other parts of a location name types of Python."""
    place, found = raw, list[str]()
    for part in detail["loc"]:
        if not _has(place, part):
            break
        place = place[part]  # type: ignore[index]
        found.append(str(part))
    if detail["type"] == "missing":
        found.append(str(detail["loc"][-1]))
    return ".".join(found)


def _has(place: object, part: int | str) -> bool:
    if isinstance(place, Mapping):
        return part in place
    return isinstance(place, list) and isinstance(part, int) and part < len(place)
