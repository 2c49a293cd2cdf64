"""Foreign text: parsing of numbers, removal of control characters, and shortening."""

from __future__ import annotations


def whole_number(text: str, *, least: int = 0, most: int) -> int | None:
    """Parse ASCII digits; return None if ``text`` is not an integer from least to most.

    Python's `int` also accepts digits of other scripts, and raises for thousands of digits.
    """
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(most)):
        return None
    number = int(digits or "0")
    return number if least <= number <= most else None


def in_one_line(text: str) -> str:
    """Replace each control character of terminals and logs with a blank."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def shortened(text: str, longest: int) -> str:
    """Shorten ``text`` to this number of characters; a shortened text ends in an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
