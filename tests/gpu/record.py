"""The result of a check: one file, written after every step, from which a later run continues."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.bench.results import write
from tests.gpu.verdicts import Check, Verdict


class Status(StrEnum):
    """How far a part came."""

    DONE = "done"
    CUT_OFF = "cut off"
    """It began, and its end is not in the file."""
    FAILED = "failed"
    NO_TIME = "no time"
    LACKING = "lacking"
    """Another part has not brought the figures that it reads."""
    NOT_HERE = "not here"
    """This machine or this launch cannot show it."""


@dataclass(slots=True)
class PartRecord:
    """One part. why: a sentence where it is not done. figures: by name, beyond those of the checks."""

    status: Status
    why: str = ""
    seconds: float = 0.0
    checks: list[Check] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)


class OtherMachine(ValueError):
    """The file to continue is of another machine, release or model; the message says which differ."""


@dataclass(slots=True)
class Record:
    """All of a check. about: command, commit, date, device, models. starts: of engines, by method and arm.
    tables: throughput tables, as `outrider simulate` reads them."""

    file: Path
    about: dict[str, object]
    parts: dict[str, PartRecord] = field(default_factory=dict)
    starts: dict[str, object] = field(default_factory=dict)
    tables: list[dict[str, object]] = field(default_factory=list)

    def write(self) -> None:
        """Write the file as it is known now."""
        write(
            self.file,
            {
                **self.about,
                "parts": {name: asdict(part) for name, part in self.parts.items()},
                "starts": self.starts,
                "tables": self.tables,
            },
        )

    def checks(self) -> list[Check]:
        """Of all parts."""
        return [check for part in self.parts.values() for check in part.checks]

    def done(self, name: str) -> bool:
        """Whether a part need not run again."""
        part = self.parts.get(name)
        return part is not None and part.status in (Status.DONE, Status.NOT_HERE)


SAME = ("engine", "device", "models", "commit")
"""What a run that continues another has in common with it."""


def continued(file: Path, about: Mapping[str, object]) -> Record:
    """The record of an earlier run with this run's beginning. A part that was cut off begins anew.

    Raises:
        OtherMachine: figures of both runs do not belong in one file.
        OSError, ValueError: no such file, or not one of this check.
    """
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    now: Mapping[str, Any] = json.loads(json.dumps(about))
    differing = [name for name in SAME if found.get(name) != now.get(name)]
    if differing:
        raise OtherMachine(
            f"{file} is of another {' and '.join(differing)}; without --resume the check begins anew"
        )
    parts = {name: _part(given) for name, given in found["parts"].items()}
    earlier = [*found.get("earlier", []), {"command": found["command"], "date": found["date"]}]
    return Record(file, {**about, "earlier": earlier}, parts, found["starts"], found["tables"])


def _part(given: Mapping[str, Any]) -> PartRecord:
    checks = [Check(**{**check, "verdict": Verdict(check["verdict"])}) for check in given["checks"]]
    return PartRecord(Status(given["status"]), given["why"], given["seconds"], checks, dict(given["figures"]))


def table(
    name: str,
    places: Sequence[tuple[int, int, float, float | None]],
    *,
    unspeculated: Mapping[int, float],
    source: str,
) -> dict[str, object]:
    """A throughput table in the format of `outrider simulate --tables`.

    places: streams, K, tokens per second, accepted tokens per draft. unspeculated: tokens per second of a
    launch without a drafter, by streams. Batch sizes without every K are left out.
    """
    ks = sorted({k for _, k, _, _ in places})
    by_place = {(streams, k): (rate, accepted) for streams, k, rate, accepted in places}
    sizes = [size for size in sorted({s for s, _, _, _ in places}) if all((size, k) in by_place for k in ks)]
    accepted = [[_accepted(k, by_place[size, k][1]) for k in ks] for size in sizes]
    whole = all(size in unspeculated for size in sizes)
    return {
        "name": name,
        "batch_sizes": sizes,
        "num_speculative_tokens": ks,
        "tokens_per_second": [[round(by_place[size, k][0], 1) for k in ks] for size in sizes],
        "no_speculation_tokens_per_second": [round(unspeculated[s], 1) for s in sizes] if whole else None,
        "accepted_per_step": accepted,
        "context_length": None,
        "mixture_of_experts": False,
        "source": source,
    }


def _accepted(k: int, found: float | None) -> float | None:
    """With K=0 there are no drafts to accept."""
    return 0.0 if k == 0 else None if found is None else round(found, 3)
