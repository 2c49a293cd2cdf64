"""What one unit of the run left behind, raw, and the file of these records. Times are unix seconds."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from examples.kit.records import DecisionSample, Record, StatusSample, Stretch


class Slice(Record):
    """A table that was held. Only what lies between the two times counts."""

    arm: str
    since: float
    until: float


class Push(Record):
    """A table that the bench wanted. ``in_force``: when status confirmed it."""

    asked: float
    table: str
    in_force: float


class ProbeSample(Record):
    """How many of the pods ran a probe at a time."""

    time: float
    pods: int
    probing: int


class UnitRecord(Record):
    """One finished unit."""

    key: str
    arm: str
    number: int
    """Round, visit or repeat, from 0."""
    stretches: tuple[Stretch, ...]
    slices: tuple[Slice, ...] = ()
    statuses: tuple[StatusSample, ...] = ()
    decisions: tuple[DecisionSample, ...] = ()
    pushes: tuple[Push, ...] = ()
    gaps: tuple[str, ...] = ()
    """Ticks of a rule without a measurement, and why."""
    restarts: int = 0
    """Containers restarted and pods replaced meanwhile."""
    thrown_away: str | None = None
    """Why another try of this unit does not count."""
    late: float | None = None
    """Time that the latest stand-in lost, over that of its steps. None: real engines."""
    probes: tuple[ProbeSample, ...] = ()
    """Of stand-ins under Outrider."""
    load_average: float = 0.0
    """Of the client's machine over the last minute."""


class OtherPlan(Exception):
    """The folder holds units of another plan."""


class Line(Record):
    """One line of the journal."""

    plan: str
    unit: UnitRecord


class Journal:
    """Finished units, one line each, so that an interrupted run can continue.

    plan: fingerprint of the settings that the units belong to.
    """

    def __init__(self, path: Path, plan: str) -> None:
        self._path = path
        self._plan = plan

    def read(self) -> dict[str, UnitRecord]:
        """Finished units by key. A torn last line was a unit that did not finish.

        Raises:
            OtherPlan: see there.
        """
        if not self._path.exists():
            return {}
        found: dict[str, UnitRecord] = {}
        for text in self._path.read_text(encoding="utf-8").splitlines():
            try:
                line = Line.model_validate_json(text)
            except ValidationError:
                continue
            if line.plan != self._plan:
                raise OtherPlan(
                    f"{self._path} belongs to a run with other settings: "
                    "choose another --output, or start over with --restart"
                )
            found[line.unit.key] = line.unit
        return found

    def append(self, unit: UnitRecord) -> None:
        """Keep a finished unit."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        torn = self._path.exists() and not self._path.read_bytes().endswith(b"\n")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("\n" if torn else "") + Line(plan=self._plan, unit=unit).model_dump_json() + "\n")

    def forget(self) -> None:
        """Start over."""
        self._path.unlink(missing_ok=True)
