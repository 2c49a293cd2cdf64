"""Windows from raw samples of one pod: sums over the time between two scrapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

from outrider.api.drafting import MAX_K
from outrider.telemetry import names
from outrider.telemetry.cells import cell_deltas, cells_of, check_totals, plugin_times
from outrider.telemetry.deltas import NoWindow, delta
from outrider.telemetry.series import PodKey, PodSeries, Sample, Unreadable
from outrider.tuning.bounded_types import MAX_COUNT
from outrider.tuning.observe.window import Gap, GapReason, Window

_SLACK = 0.02  # relative; a scrape may fall between the updates of two counters
_SLACK_COUNT = 2.0  # the same for small counts


def build_window(
    pod: PodKey,
    series: PodSeries | Unreadable | None,
    *,
    since: float,
    until: float,
    max_age_seconds: float,
) -> Window | Gap:
    """Add up one pod's counters between the first sample >= `since` and the last one <= `until`.

    since, until: unix seconds on the source's clock. `since` is the end of the previous window, so that
        sums are complete, but not earlier than the confirmation of the current schedule.
    max_age_seconds: maximum age of the newest sample at `until`.
    """
    if isinstance(series, Unreadable):
        return Gap(str(pod), GapReason.UNREADABLE, series.detail)
    try:
        return _window(pod, series or {}, since, until, max_age_seconds)
    except NoWindow as gap:
        return Gap(str(pod), gap.reason, gap.detail)


def _window(pod: PodKey, series: PodSeries, since: float, until: float, max_age_seconds: float) -> Window:
    missing = [name for name in names.REQUIRED if not series.get(name)]
    if missing:
        raise NoWindow(GapReason.NO_SERIES, f"no samples of {', '.join(missing)}")
    newest = max((s.at for s in series[names.GENERATED_TOKENS] if s.at <= until), default=None)
    if newest is None or until - newest > max_age_seconds:
        age = (
            "all samples are in the future" if newest is None else f"newest sample {until - newest:.0f} s old"
        )
        raise NoWindow(GapReason.STALE, f"{age}, the limit is {max_age_seconds:.0f} s")

    counters = {name: _span(series[name], since, until) for name in _counters_of(series)}
    of_plugin = plugin_times(series)
    times = _common_times(counters, of_plugin)
    if len(times) < 2:
        raise NoWindow(GapReason.TOO_SHORT, f"{len(times)} of 2 samples needed")
    sums = {name: delta(name, [samples[at] for at in times]) for name, samples in counters.items()}
    _check_consistency(sums)
    cells = cell_deltas(series, times)
    if cells:
        check_totals(cells, sums)
    batches = _batches(counters, times)
    return Window(
        pod=str(pod),
        started_at=times[0],
        ended_at=times[-1],
        engine_steps=sums[names.ENGINE_STEPS],
        request_steps=sums[names.REQUEST_STEPS],
        first_tokens=sums[names.FIRST_TOKENS],
        decode_seconds=sums[names.DECODE_SECONDS],
        decode_tokens=max(0.0, sums[names.GENERATED_TOKENS] - sums[names.FIRST_TOKENS]),
        drafts=sums.get(names.DRAFTS, 0.0),
        draft_tokens=sums.get(names.DRAFT_TOKENS, 0.0),
        accepted_tokens=sums.get(names.ACCEPTED_TOKENS, 0.0),
        accepted_per_position=tuple(sums[name] for name in _positions_of(series)),
        prefill_tokens=sums.get(names.PROMPT_TOKENS, 0.0),
        requests_waiting=_gauge(series, names.REQUESTS_WAITING, times, most=MAX_COUNT),
        kv_usage_ratio=_gauge(series, names.KV_USAGE, times, most=1.0),
        batch_low=min(batches, default=None),
        batch_high=max(batches, default=None),
        cells=cells_of(cells),
    )


def _positions_of(series: PodSeries) -> list[str]:
    return list(takewhile(series.__contains__, map(names.per_position, range(MAX_K))))


def _counters_of(series: PodSeries) -> list[str]:
    optional = (names.PROMPT_TOKENS, *names.SPECULATION)
    return [*names.REQUIRED, *(name for name in optional if series.get(name)), *_positions_of(series)]


def _span(samples: Sequence[Sample], since: float, until: float) -> dict[float, float]:
    return {sample.at: sample.value for sample in samples if since <= sample.at <= until}


def _common_times(counters: Mapping[str, Mapping[float, float]], of_plugin: set[float] | None) -> list[float]:
    """Return the times of scrapes with every counter, because all sums must cover the same time."""
    spans = iter(counters.values())
    times = set(next(spans)).intersection(*spans)
    return sorted(times if of_plugin is None else times & of_plugin)


def _check_consistency(delta: Mapping[str, float]) -> None:
    """Check relations of vLLM's counters: one latency per request and step, at most K of K accepted."""
    request_steps, first = delta[names.REQUEST_STEPS], delta[names.FIRST_TOKENS]
    drafts, accepted = delta.get(names.DRAFTS, 0.0), delta.get(names.ACCEPTED_TOKENS, 0.0)
    drafted = delta.get(names.DRAFT_TOKENS, 0.0)
    steps, generated = delta[names.ENGINE_STEPS], delta[names.GENERATED_TOKENS]
    laws = (
        ("more engine steps than request-steps and first tokens", steps, request_steps + first),
        ("more accepted than drafted tokens", accepted, drafted),
        ("more drafts than request-steps", drafts, request_steps + first),
        ("more tokens than steps and accepted drafts can give", generated, request_steps + first + accepted),
    )
    if request_steps > 0 and delta[names.DECODE_SECONDS] <= 0:
        raise NoWindow(GapReason.CONTRADICTORY, "request-steps without any time")
    for complaint, small, large in laws:
        if small > large * (1 + _SLACK) + _SLACK_COUNT:
            raise NoWindow(GapReason.CONTRADICTORY, f"{complaint}: {small:.0f} > {large:.0f}")


def _batches(counters: Mapping[str, Mapping[float, float]], times: Sequence[float]) -> list[float]:
    """Return mean batch sizes between neighbouring scrapes in which the engine worked."""

    def requests(at: float) -> float:
        return counters[names.REQUEST_STEPS][at] + counters[names.FIRST_TOKENS][at]

    steps = counters[names.ENGINE_STEPS]
    return [
        (requests(after) - requests(before)) / (steps[after] - steps[before])
        for before, after in pairwise(times)
        if steps[after] > steps[before]
    ]


def _gauge(series: PodSeries, name: str, times: Sequence[float], *, most: float) -> float | None:
    """Return the last value in the window; None if there is none or it is impossible."""
    inside = (s.value for s in reversed(series.get(name, ())) if times[0] <= s.at <= times[-1])
    last = next(inside, None)
    return last if last is not None and 0 <= last <= most else None
