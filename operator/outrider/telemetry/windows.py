"""Windows from raw samples of one pod: sums over the time between two scrapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from math import inf

from outrider.api.drafting import MAX_K
from outrider.runtimes.metrics import REQUIRED, Counter, HistogramOf, MetricsDialect, Samples
from outrider.telemetry.cells import NoWindow, cell_deltas, cells_of, check_totals, delta, plugin_times
from outrider.telemetry.series import BucketSeries, PodKey, PodSeries, Unreadable
from outrider.tuning.bounded_types import MAX_COUNT
from outrider.tuning.observe.latencies import Latencies
from outrider.tuning.observe.window import Gap, GapReason, Window

_SLACK = 0.02  # relative; a scrape may fall between the updates of two counters
_SLACK_COUNT = 2.0  # the same for small counts
_MAX_EDGES = 200
"""Limit of the edges of one histogram. vLLM has 19 and 22."""


def build_window(
    pod: PodKey,
    series: PodSeries | Unreadable | None,
    *,
    dialect: MetricsDialect,
    since: float,
    until: float,
    max_age_seconds: float,
) -> Window | Gap:
    """Add up one pod's counters between the first sample >= `since` and the last one <= `until`.

    dialect: the metrics of its runtime.
    since, until: unix seconds on the source's clock. `since` is the end of the previous window, so that
        sums are complete, but not earlier than the confirmation of the current schedule.
    max_age_seconds: maximum age of the newest sample at `until`.
    """
    if isinstance(series, Unreadable):
        return Gap(str(pod), GapReason.UNREADABLE, series.detail)
    try:
        return _window(pod, series or {}, dialect, (since, until), max_age_seconds)
    except NoWindow as gap:
        return Gap(str(pod), gap.reason, gap.detail)


def _window(
    pod: PodKey,
    series: PodSeries,
    dialect: MetricsDialect,
    span: tuple[float, float],
    max_age_seconds: float,
) -> Window:
    until = span[1]
    common = dialect.common(series)
    missing = [dialect.named(counter) for counter in REQUIRED if counter not in common]
    if missing:
        raise NoWindow(GapReason.NO_SERIES, f"no samples of {', '.join(missing)}")
    newest = max((at for at, _ in common[Counter.GENERATED_TOKENS] if at <= until), default=None)
    if newest is None or until - newest > max_age_seconds:
        age = (
            "all samples are in the future" if newest is None else f"newest sample {until - newest:.0f} s old"
        )
        raise NoWindow(GapReason.STALE, f"{age}, the limit is {max_age_seconds:.0f} s")

    counters = {counter: _within(samples, span) for counter, samples in common.items()}
    positions = [_within(samples, span) for samples in _positions_of(series, dialect)]
    of_plugin = plugin_times(series, dialect)
    times = _common_times([*counters.values(), *positions], of_plugin)
    if len(times) < 2:
        raise NoWindow(GapReason.TOO_SHORT, f"{len(times)} of 2 samples needed")
    sums = {
        counter: delta(dialect.named(counter), [samples[at] for at in times])
        for counter, samples in counters.items()
    }
    accepted = tuple(
        delta(dialect.at_position(position), [samples[at] for at in times])
        for position, samples in enumerate(positions)
    )
    _check_consistency(sums)
    cells = cell_deltas(series, times)
    if cells:
        check_totals(cells, sums, dialect)
    batches = _batches(counters, times)
    return Window(
        pod=str(pod),
        started_at=times[0],
        ended_at=times[-1],
        engine_steps=sums[Counter.ENGINE_STEPS],
        request_steps=sums[Counter.REQUEST_STEPS],
        first_tokens=sums[Counter.FIRST_TOKENS],
        decode_seconds=sums[Counter.DECODE_SECONDS],
        decode_tokens=max(0.0, sums[Counter.GENERATED_TOKENS] - sums[Counter.FIRST_TOKENS]),
        drafts=sums.get(Counter.DRAFTS, 0.0),
        draft_tokens=sums.get(Counter.DRAFT_TOKENS, 0.0),
        accepted_tokens=sums.get(Counter.ACCEPTED_TOKENS, 0.0),
        accepted_per_position=accepted,
        prefill_tokens=sums.get(Counter.PROMPT_TOKENS, 0.0),
        requests_waiting=_gauge(series, dialect.waiting, times, most=MAX_COUNT),
        kv_usage_ratio=_gauge(series, dialect.kv_usage, times, most=1.0),
        batch_low=min(batches, default=None),
        batch_high=max(batches, default=None),
        cells=cells_of(cells, dialect),
        latencies=_histogram(series, dialect.histograms.get(HistogramOf.INTER_TOKEN), times),
        first_token_latencies=_histogram(series, dialect.histograms.get(HistogramOf.FIRST_TOKEN), times),
    )


def _histogram(series: PodSeries, name: str | None, times: Sequence[float]) -> Latencies | None:
    """Return what a histogram gained; None if it was not read, or if its counters contradict each other."""
    own = [key for key in series if isinstance(key, BucketSeries) and key.name == name]
    buckets = sorted(own, key=lambda key: key.edge)
    if not 2 <= len(buckets) <= _MAX_EDGES or buckets[-1].edge != inf:
        return None
    within = [0.0]
    for bucket in buckets:
        samples = dict(series[bucket])
        before, after = samples.get(times[0]), samples.get(times[-1])
        if before is None or after is None or not 0 <= before <= after <= MAX_COUNT:
            return None
        within.append(after - before)
    counts = tuple(more - less for less, more in pairwise(within))
    edges = tuple(bucket.edge for bucket in buckets[:-1])
    return Latencies(edges, counts) if min(counts) >= 0 and edges[0] > 0 else None


def _positions_of(series: PodSeries, dialect: MetricsDialect) -> list[Samples]:
    if dialect.per_position is None:
        return []
    return [series[key] for key in takewhile(series.__contains__, map(dialect.at_position, range(MAX_K)))]


def _within(samples: Samples, span: tuple[float, float]) -> dict[float, float]:
    return {at: value for at, value in samples if span[0] <= at <= span[1]}


def _common_times(counters: Sequence[Mapping[float, float]], of_plugin: set[float] | None) -> list[float]:
    """Return the times of scrapes with every counter, because all sums must cover the same time."""
    times = set(counters[0]).intersection(*counters[1:])
    return sorted(times if of_plugin is None else times & of_plugin)


def _check_consistency(delta: Mapping[Counter, float]) -> None:
    """Check relations of the counters: one latency per request and step, at most K of K accepted."""
    request_steps, first = delta[Counter.REQUEST_STEPS], delta[Counter.FIRST_TOKENS]
    drafts, accepted = delta.get(Counter.DRAFTS, 0.0), delta.get(Counter.ACCEPTED_TOKENS, 0.0)
    drafted = delta.get(Counter.DRAFT_TOKENS, 0.0)
    steps, generated = delta[Counter.ENGINE_STEPS], delta[Counter.GENERATED_TOKENS]
    laws = (
        ("more engine steps than request-steps and first tokens", steps, request_steps + first),
        ("more accepted than drafted tokens", accepted, drafted),
        ("more drafts than request-steps", drafts, request_steps + first),
        ("more tokens than steps and accepted drafts can give", generated, request_steps + first + accepted),
    )
    if request_steps > 0 and delta[Counter.DECODE_SECONDS] <= 0:
        raise NoWindow(GapReason.CONTRADICTORY, "request-steps without any time")
    for complaint, small, large in laws:
        if small > large * (1 + _SLACK) + _SLACK_COUNT:
            raise NoWindow(GapReason.CONTRADICTORY, f"{complaint}: {small:.0f} > {large:.0f}")


def _batches(counters: Mapping[Counter, Mapping[float, float]], times: Sequence[float]) -> list[float]:
    """Return mean batch sizes between neighbouring scrapes in which the engine worked."""

    def requests(at: float) -> float:
        return counters[Counter.REQUEST_STEPS][at] + counters[Counter.FIRST_TOKENS][at]

    steps = counters[Counter.ENGINE_STEPS]
    return [
        (requests(after) - requests(before)) / (steps[after] - steps[before])
        for before, after in pairwise(times)
        if steps[after] > steps[before]
    ]


def _gauge(series: PodSeries, name: str | None, times: Sequence[float], *, most: float) -> float | None:
    """Return the last value in the window; None if there is none or it is impossible."""
    samples = () if name is None else series.get(name, ())
    inside = (s.value for s in reversed(samples) if times[0] <= s.at <= times[-1])
    last = next(inside, None)
    return last if last is not None and 0 <= last <= most else None
