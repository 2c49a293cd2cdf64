"""What a run leaves behind, raw, as it is written and read again. Times are unix seconds."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base: immutable, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Count(Record):
    """What the load client counted in a period of ``seconds`` that ended at ``time``."""

    time: float
    seconds: float
    tokens: int
    requests: int
    failed: int
    errors: tuple[str, ...] = ()


class Stretch(Record):
    """One steady load as it was driven. ``counts`` is never empty."""

    streams: int
    prompts: str
    counts: tuple[Count, ...]

    @property
    def load(self) -> str:
        """Such as ``code x8``."""
        return f"{self.prompts} x{self.streams}"

    @property
    def start(self) -> float:
        """When the load began."""
        return self.counts[0].time - self.counts[0].seconds

    @property
    def end(self) -> float:
        """When the last count was taken."""
        return self.counts[-1].time

    def covers(self, time: float) -> bool:
        """Whether the load was held then."""
        return self.start <= time <= self.end


class Requests(Record):
    """Requests of a whole run. ``errors``: each one once."""

    finished: int
    failed: int
    errors: list[str]

    @classmethod
    def of(cls, stretches: Iterable[Stretch]) -> Requests:
        """All that these stretches counted."""
        counts = [count for stretch in stretches for count in stretch.counts]
        return cls(
            finished=sum(count.requests for count in counts),
            failed=sum(count.failed for count in counts),
            errors=sorted({error for count in counts for error in count.errors}),
        )


class SpeedupSample(Record):
    """``status.speculation.speedup``."""

    ratio: float
    low: float | None
    high: float | None
    reference: str
    measured_at: float


class StatusSample(Record):
    """The model's status at one time. ``table``: the one in force, in one line; None while none is known."""

    time: float
    table: str | None
    epoch: int | None = None
    acceptance_rate: float | None = None
    speedup: SpeedupSample | None = None


class DecisionSample(Record):
    """A decision as the model's status reported it."""

    time: float
    from_table: str
    to_table: str
    reason: str
    message: str = ""
    expected_gain: float | None = None
    measured_gain: float | None = None


def during(statuses: Iterable[StatusSample], stretch: Stretch) -> list[StatusSample]:
    """What was seen while a load was held."""
    return [one for one in statuses if stretch.covers(one.time)]
