"""What telemetry asks of a runtime: the names of its metrics, and how they become common counters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

Samples = Sequence[tuple[float, float]]
"""Time in unix seconds and value, in rising order of time."""

MIXED = "mixed"
"""Value of the label `k` of a cell for steps that verified another K than they draft."""


class Counter(Enum):
    """What the tuner counts of every engine."""

    ENGINE_STEPS = "engine steps"
    REQUEST_STEPS = "steps of requests that decode"
    DECODE_SECONDS = "seconds of these steps, summed over requests"
    FIRST_TOKENS = "requests whose first token came"
    GENERATED_TOKENS = "generated tokens"
    PROMPT_TOKENS = "prompt tokens that the engine computed itself"
    DRAFTS = "drafts that were verified"
    DRAFT_TOKENS = "drafted tokens"
    ACCEPTED_TOKENS = "accepted draft tokens"


REQUIRED = (
    Counter.ENGINE_STEPS,
    Counter.REQUEST_STEPS,
    Counter.DECODE_SECONDS,
    Counter.FIRST_TOKENS,
    Counter.GENERATED_TOKENS,
)
"""Without one of them there is no window; any other one that is absent counts as 0."""


class HistogramOf(Enum):
    """What the tuner reads as a histogram, for models with latency targets."""

    INTER_TOKEN = "seconds between two outputs of a request"
    FIRST_TOKEN = "seconds to the first token of a request"


class CellCounter(Enum):
    """What an Outrider plugin counts per batch bin and K; those of `PER_POSITION` also per draft position."""

    STEPS = "steps"
    SECONDS = "seconds of these steps"
    REQUESTS = "scheduled requests"
    EMITTED = "emitted tokens"
    PREFILL = "prompt tokens"
    CONTEXT = "tokens in the KV cache"
    VERIFIED = "verified draft tokens"
    TRIMMED = "drafted tokens that were not verified"
    ACCEPTED = "accepted tokens"
    LIMITED = "scheduled requests whose K limit leaves the position out"
    LIMITED_VERIFIED = "verified draft tokens of requests that verify fewer than others"
    LIMITED_ACCEPTED = "accepted ones of these"


PER_POSITION = (
    CellCounter.VERIFIED,
    CellCounter.TRIMMED,
    CellCounter.ACCEPTED,
    CellCounter.LIMITED,
    CellCounter.LIMITED_VERIFIED,
    CellCounter.LIMITED_ACCEPTED,
)


class CellSeries(NamedTuple):
    """One counter of the plugin for one batch bin and K."""

    name: str
    low: int  # smallest batch of the bin
    k: int | None  # None: steps that verified another K than they draft
    position: int | None = None  # of the draft, counted from 0; None where the counter has none


PLUGIN_CELLS: Mapping[CellCounter, str] = {
    CellCounter.STEPS: "outrider:steps_total",
    CellCounter.SECONDS: "outrider:step_seconds_total",
    CellCounter.REQUESTS: "outrider:scheduled_requests_total",
    CellCounter.EMITTED: "outrider:emitted_tokens_total",
    CellCounter.PREFILL: "outrider:prefill_tokens_total",
    CellCounter.CONTEXT: "outrider:context_tokens_total",
    CellCounter.VERIFIED: "outrider:draft_tokens_total",
    CellCounter.TRIMMED: "outrider:trimmed_draft_tokens_total",
    CellCounter.ACCEPTED: "outrider:accepted_tokens_total",
    CellCounter.LIMITED: "outrider:limited_requests_total",
    CellCounter.LIMITED_VERIFIED: "outrider:limited_draft_tokens_total",
    CellCounter.LIMITED_ACCEPTED: "outrider:limited_accepted_tokens_total",
}
"""The names of Outrider's plugins, which are alike in every engine."""
PLUGIN_EPOCH = "outrider:epoch"
PLUGIN_LIVE_TUNING = "outrider:live_tuning"


@dataclass(frozen=True, slots=True, eq=False)
class MetricsDialect:
    """The metrics of one runtime, by their names in its `/metrics`."""

    counters: Mapping[Counter, str]
    """Counters that the engine has; the others are reckoned or absent."""
    per_position: str | None = None
    """Counter of accepted tokens with a label `position`."""
    waiting: str | None = None
    """Gauge of waiting requests."""
    kv_usage: str | None = None
    """Gauge of the KV cache in use, as a ratio."""
    gauges: tuple[str, ...] = ()
    """Further metrics, of which `reckon` makes counters."""
    means: tuple[str, ...] = ()
    """Those of `gauges` of which the maximum counts where a pod has several engines, and not the sum."""
    reckon: Callable[[Mapping[Any, Samples]], Mapping[Counter, Samples]] | None = None
    """Makes counters of gauges, for an engine that counts less. Only their differences are used."""
    histograms: Mapping[HistogramOf, str] = field(default_factory=dict)
    """Cumulative counters of histograms, with a label `le`. They are read only for models with latency
    targets."""
    cells: Mapping[CellCounter, str] = field(default_factory=dict)
    """Counters of the plugin, by batch bin and K; they appear with their first step. Empty: the tuner learns
    from the sums of `counters` alone."""
    plugin: str | None = None
    """Gauge that the plugin exports from the start; among several engines the maximum counts."""
    live_tuning: str | None = None
    """Gauge that is 1 where the schedule can change while the engine runs, for `outrider doctor`."""
    engine_labels: tuple[str, ...] = ()
    """Labels that separate several engines of one pod."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Label -> the one value that is read, where a series has the label."""

    @property
    def of_engine(self) -> tuple[str, ...]:
        """The names that do not come from the plugin."""
        gauges = (self.per_position, self.waiting, self.kv_usage, *self.gauges)
        return (*self.counters.values(), *(name for name in gauges if name is not None))

    @property
    def of_plugin(self) -> tuple[str, ...]:
        """The names that come from the plugin. A wrong one falsifies none of the engine's own sums."""
        return (*self.cells.values(), *(() if self.plugin is None else (self.plugin,)))

    @property
    def alive(self) -> str:
        """A metric that every serving engine has."""
        return self.counters.get(Counter.GENERATED_TOKENS) or self.of_engine[0]

    def at_position(self, position: int) -> str:
        """The key of `per_position` for one draft position, counted from 0."""
        return f"{self.per_position}{{{position}}}"

    def common(self, series: Mapping[Any, Samples]) -> Mapping[Counter, Samples]:
        """The samples of a pod under common names, without absent counters."""
        named = {counter: series.get(name, ()) for counter, name in self.counters.items()}
        reckoned = {} if self.reckon is None else self.reckon(series)
        return {counter: samples for counter, samples in {**named, **reckoned}.items() if samples}

    def named(self, counter: Counter) -> str:
        """The name of a counter in messages."""
        return self.counters.get(counter, counter.value)


class Dialects:
    """The metrics of several runtimes. A name belongs to the first that has it."""

    def __init__(self, dialects: Iterable[MetricsDialect]) -> None:
        self.all = tuple(dialects)
        self._by_name: dict[str, MetricsDialect] = {}
        for one in self.all:
            for name in (*one.of_engine, *one.of_plugin, *one.histograms.values()):
                self._by_name.setdefault(name, one)
        self.histograms = frozenset(name for one in self.all for name in one.histograms.values())
        self.names = tuple(name for name in self._by_name if name not in self.histograms)
        """Metrics that are read of every model."""
        self.has_position = {
            name: counter in PER_POSITION for one in self.all for counter, name in one.cells.items()
        }
        """Cells' metrics, and whether they have a label `position`."""
        self.of_plugin = frozenset(name for one in self.all for name in one.of_plugin)
        self.by_maximum = frozenset(
            name for one in self.all for name in (one.kv_usage, one.plugin, *one.means) if name is not None
        )
        """Gauges of which the maximum counts where a pod has several engines."""
        self.engine_labels = tuple(dict.fromkeys(label for one in self.all for label in one.engine_labels))
        self.only = {label: value for one in self.all for label, value in one.only.items()}
        self.labels = ("__name__", *self.engine_labels, "batch", "k", "position", "le", *self.only)
        """Labels that engines write."""

    def of(self, name: str) -> MetricsDialect | None:
        """The dialect that has a metric of this name; None: no runtime has it."""
        return self._by_name.get(name)
