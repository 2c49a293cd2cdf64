"""Values in ``spec.engine.args`` that the operator reckons with."""

from __future__ import annotations

from outrider.api.engine_args import Scalar
from outrider.api.text import shortened, whole_number
from outrider.runtimes.runtime import Args


def canonical(flag: str) -> str:
    """The one of a flag's two spellings that the engine shows."""
    return flag.replace("_", "-")


def own_value(own: Args, flag: str) -> Scalar | list[Scalar] | None:
    """What ``spec.engine.args`` gives for a flag in either spelling; None without it."""
    return next((value for name, value in own.items() if canonical(name) == flag), None)


def own_number(own: Args, flag: str, *, least: int, most: int) -> int | None:
    """The number that a flag gives; None without it.

    Raises:
        ValueError: not a whole number in this range; the message names the field.
    """
    value = own_value(own, flag)
    if value is None:
        return None
    text = str(value)
    number = whole_number(text, least=least, most=most)
    if number is None:
        wanted = f"spec.engine.args.{flag} must be a whole number from {least} to {most}"
        raise ValueError(f"{wanted}, not {shortened(text, 40)}")
    return number


def own_share(own: Args, flag: str) -> float | None:
    """The ratio above 0, at most 1, that a flag gives; None without it.

    Raises:
        ValueError: another value; the message names the field.
    """
    value = own_value(own, flag)
    if value is None:
        return None
    try:
        share = float(str(value))
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        wanted = f"spec.engine.args.{flag} must be a number above 0, at most 1"
        raise ValueError(f"{wanted}, not {shortened(str(value), 40)}")
    return share
