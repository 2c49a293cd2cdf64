"""Text that somebody else wrote: numbers out of it, and as much of it as there is room for."""

from __future__ import annotations


def whole_number(text: str, *, least: int = 0, most: int) -> int | None:
    """The number that ``text`` spells in ASCII digits; None where that is no number from least to most.

    Python's own reader takes the digits of every script, and raises beyond some thousand of them.
    """
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(most)):
        return None
    number = int(digits or "0")
    return number if least <= number <= most else None


def in_one_line(text: str) -> str:
    """``text`` with a blank for each character that a terminal or a log would act on."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def shortened(text: str, longest: int) -> str:
    """``text`` within so many characters; where something is left out, it ends in an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
