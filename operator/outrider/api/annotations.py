"""Instructions to the tuner in annotations of the SpeculativeModel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.api.resource import GROUP
from outrider.api.text import shortened
from outrider.api.tuning import Actuation
from outrider_protocol.schedule import Schedule

PAUSED = f"{GROUP}/paused"
OVERRIDE = f"{GROUP}/schedule-override"
OVERRIDE_UNTIL = f"{GROUP}/schedule-override-until"
FORGET = f"{GROUP}/reset-tuner"

MAX_REQUEST = 64
"""Characters of the value of `FORGET`, which is kept with what was learnt since."""


@dataclass(frozen=True, slots=True)
class Override:
    """A schedule that replaces the tuned schedule until a stated time."""

    schedule: Schedule
    until: datetime  # aware


@dataclass(frozen=True, slots=True)
class Instructions:
    """The parsed annotations. A refused annotation changes nothing."""

    paused: bool = False
    override: Override | None = None
    forget: str | None = None
    """Name of a request to reset the tuner; another name is another request."""
    refused: str | None = None
    """What is wrong with an annotation, and what to do."""


def read_instructions(
    annotations: Mapping[str, str], *, candidates: Collection[int], actuation: Actuation
) -> Instructions:
    """Parse the annotations of a model. candidates: the values of K that its engines were launched with."""
    complaints = []
    paused, override, forget = False, None, None
    try:
        paused = _paused(annotations)
    except ValueError as error:
        complaints.append(str(error))
    try:
        override = _override(annotations, candidates, actuation)
    except ValueError as error:
        complaints.append(str(error))
    try:
        forget = _forget(annotations)
    except ValueError as error:
        complaints.append(str(error))
    return Instructions(paused, override, forget, " ".join(complaints) or None)


def _paused(annotations: Mapping[str, str]) -> bool:
    value = annotations.get(PAUSED, "false")
    if value not in ("true", "false"):
        raise ValueError(f'{PAUSED} is {_short(value)}: set it to "true", or remove it.')
    return value == "true"


def _override(
    annotations: Mapping[str, str], candidates: Collection[int], actuation: Actuation
) -> Override | None:
    text, until = annotations.get(OVERRIDE), annotations.get(OVERRIDE_UNTIL)
    if text is None:
        if until is not None:
            raise ValueError(f"{OVERRIDE_UNTIL} without {OVERRIDE}: set both, or remove it.")
        return None
    if actuation is Actuation.ROLLOUT:
        raise ValueError(
            f"{OVERRIDE} needs tuning.actuation: Live, because a stock engine cannot change its schedule: "
            "remove it, or change spec.speculation.schedule, which restarts the pods one by one."
        )
    if until is None:
        raise ValueError(
            f"{OVERRIDE} has no end: set {OVERRIDE_UNTIL} to a time such as 2026-01-31T18:00:00Z."
        )
    try:
        schedule = Schedule.parse(text)
    except ValueError as error:
        raise ValueError(f"{OVERRIDE} is {_short(text)}: {error}. Write it like 8:3,32:1,*:0.") from error
    unknown = sorted(schedule.values() - set(candidates))
    if unknown:
        known = ", ".join(map(str, sorted(candidates)))
        raise ValueError(f"{OVERRIDE} has K={unknown[0]}, which the engines did not capture: use {known}.")
    return Override(schedule, _moment(until))


def _forget(annotations: Mapping[str, str]) -> str | None:
    value = annotations.get(FORGET)
    if value is not None and len(value) > MAX_REQUEST:
        raise ValueError(
            f"{FORGET} has {len(value)} characters: write at most {MAX_REQUEST}, such as a time."
        )
    return value


def _moment(text: str) -> datetime:
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            # The first and last hours of the calendar do not exist in every time zone.
            return moment.astimezone(UTC)
    raise ValueError(
        f"{OVERRIDE_UNTIL} is {_short(text)}: write a time with its zone, such as 2026-01-31T18:00:00Z."
    )


def _short(value: str) -> str:
    return repr(shortened(value, 60))
