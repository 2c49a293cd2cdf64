"""Whatever one pod shows: no error but the documented ones, and the other pod is seen as ever."""

from __future__ import annotations

import asyncio

import httpx
from hypothesis import given, settings, target
from hypothesis import strategies as st

from outrider.api.drafting import MAX_K
from outrider.runtimes.metrics import CellSeries
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.answer import read_answer
from outrider.telemetry.page import Reading, read_text
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.series import (
    MAX_SERIES,
    PodKey,
    PodMetrics,
    Unreadable,
)
from outrider.telemetry.windows import build_window
from outrider.tuning.bounded_types import MAX_BATCH
from outrider.tuning.observe.window import Gap, Window
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.telemetry.factories import Counters, PluginCounters, a_row, exposition
from tests.unit.transport.played import played
from tests.unit.tuning.factories import a_policy, a_start

HOSTILE, WELL = PodKey("default", "a"), PodKey("default", "b")
POLICY = a_policy()

RAN = (
    exposition(Counters().ran(), PluginCounters().ran()).decode(),
    exposition(Counters().ran().ran(steps=300), PluginCounters().ran().ran(steps=300)).decode(),
)

NUMBERS = st.sampled_from(
    ["0", "1", "-1", "3.5", "1e308", "1" + "0" * 400, "9" * 5000, "NaN", "+Inf", "²", "1_0", "", "many"]
)
VALUES = st.one_of(NUMBERS, st.integers().map(str), st.floats().map(str))
STAMPS = st.one_of(st.just(""), VALUES.map(lambda at: f" {at}"))
TEXTS = st.one_of(
    NUMBERS,
    st.sampled_from(
        ["7-12", "25+", "mixed", "2", "33", "1000000000", "9" * 5000 + "+", "x" * 2000, "local_compute"]
    ),
    st.text(max_size=10),
)
LABELS = st.dictionaries(
    st.sampled_from(["batch", "k", "position", "engine", "model_name", "source", "job", "instance", "le"]),
    TEXTS,
    max_size=6,
)
NAMES = st.sampled_from((*names.DIALECT.of_engine, *names.DIALECT.of_plugin))
JUNK = st.text(alphabet='{}[]=",\\ \t#\u2028\x00aé1²', max_size=30)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A sample of a metric that is read, more or less in the text format."""
    labels = ",".join(f'{name}="{value}"' for name, value in draw(LABELS).items())
    line = f"{draw(NAMES)}{{{labels}}} {draw(VALUES)}{draw(STAMPS)}"
    at = draw(st.integers(0, len(line)))
    return line[:at] + draw(st.one_of(st.just(""), JUNK)) + line[at:]


@st.composite
def pages(draw: st.DrawFn, ran: str) -> str:
    """What an engine shows, with some lines replaced and some added."""
    shown = ran.splitlines()
    for line in draw(st.lists(st.one_of(lines(), JUNK), max_size=4)):
        at = draw(st.integers(0, len(shown) - 1))
        shown[at : at + draw(st.integers(0, 1))] = [line]
    return "\n".join([*shown, ""])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TIMES = st.sampled_from([1.0, 2.0, 1.5, -1.0, 1e300, float("inf"), float("nan")])
SAMPLES = st.one_of(st.lists(st.tuples(TIMES, VALUES).map(list), max_size=4), JSON)
DATA = st.one_of(
    st.fixed_dictionaries({"values": SAMPLES}),
    st.fixed_dictionaries({"histograms": st.lists(JSON, max_size=2)}),
    st.dictionaries(st.text(max_size=5), JSON, max_size=2),
)


@st.composite
def rows(draw: st.DrawFn) -> object:
    """A series of the hostile pod, or what Prometheus would never send."""
    metric = {"__name__": draw(NAMES), "namespace": HOSTILE.namespace, "pod": HOSTILE.pod, **draw(LABELS)}
    return draw(st.one_of(DATA.map(lambda data: {"metric": metric, **data}), JSON))


def prometheus_rows(pod: PodKey) -> list[object]:
    """The text of both scrapes, as Prometheus has it."""
    found: dict[str, list[list[object]]] = {}
    metrics: dict[str, tuple[str, dict[str, str]]] = {}
    for at, page in enumerate(RAN, start=1):
        for line, reading in read_text(page, {}).items():
            if isinstance(reading, Reading):
                series, _, value = line.rpartition(" ")
                found.setdefault(series, []).append([float(at), value])
                name, _, labels = series.removesuffix("}").partition("{")
                pairs = (pair.split("=", 1) for pair in labels.split(",") if pair)
                metrics[series] = name, {label: quoted.strip('"') for label, quoted in pairs}
    return [
        a_row(metrics[series][0], values=values, pod=pod.pod, **metrics[series][1])
        for series, values in found.items()
    ]


HEALTHY = prometheus_rows(WELL)


def window_of(pod: PodKey, metrics: PodMetrics | None) -> Window | Gap:
    return build_window(pod, metrics, dialect=DIALECT, since=0.0, until=2.0, max_age_seconds=5.0)


ALONE = window_of(WELL, read_answer(HEALTHY).pods[WELL])


def require_bounded(metrics: PodMetrics | None) -> None:
    """At most the allowed input, and a tuner that accepts the result."""
    seen = window_of(HOSTILE, metrics)
    target(0.0 if isinstance(seen, Gap) else 1.0, label="windows out of hostile metrics")
    if isinstance(metrics, Unreadable):
        assert len(metrics.detail) < 500
    elif metrics is not None:
        assert len(metrics) <= MAX_SERIES
        for key in metrics:
            if isinstance(key, CellSeries):
                assert 0 <= key.low <= MAX_BATCH
                assert 0 <= (key.k or 0) <= MAX_K
                assert 0 <= (key.position or 0) < MAX_K
    if isinstance(seen, Window):
        assert len(seen.accepted_per_position) <= MAX_K
    now, state = 2.0, a_start()
    for _ in range(2):
        state = decide(TickContext([seen, ALONE], state, policy=POLICY, now=now)).state
        now += 5.0


def test_the_healthy_pod_alone_has_a_window_with_cells() -> None:
    assert isinstance(ALONE, Window)
    assert ALONE.cells


@given(st.lists(rows(), max_size=8), st.booleans(), st.randoms(use_true_random=False))
def test_hostile_rows_in_an_answer_of_prometheus(hostile: list[object], beside: bool, order: object) -> None:
    """beside: the hostile pod has an engine as well, among whose rows the odd ones lie."""
    found = [*hostile, *(prometheus_rows(HOSTILE) if beside else ()), *HEALTHY]
    order.shuffle(found)  # type: ignore[attr-defined]
    answer = read_answer(found)
    assert window_of(WELL, answer.pods[WELL]) == ALONE
    require_bounded(answer.pods.get(HOSTILE))
    assert all(len(str(skipped)) < 500 for skipped in answer.skipped.values())


class Clock:
    now = 1.0


async def scraped(first: httpx.Response, second: httpx.Response) -> dict[PodKey, PodMetrics]:
    """Both pods twice; the hostile one answers with these."""
    clock = Clock()
    answers = {
        HOSTILE.pod: (first, second),
        WELL.pod: tuple(httpx.Response(200, stream=stream(p)) for p in RAN),
    }

    def answer(request: httpx.Request) -> httpx.Response:
        return answers[request.url.host][0 if clock.now == 1.0 else 1]

    source = PodScrapeSource(
        lambda: [Target(pod, f"http://{pod.pod}") for pod in (HOSTILE, WELL)],
        clock=lambda: clock.now,
        http=played(answer),
    )
    async with source:
        await source.fetch(60)
        clock.now = 2.0
        return dict(await source.fetch(60))


def stream(page: str) -> httpx.ByteStream:
    return httpx.ByteStream(page.encode(errors="surrogatepass"))


RESPONSES = st.sampled_from([(200, {}), (200, {}), (200, {}), (500, {}), (302, {"Location": "http://b/"})])
ENCODED = st.sampled_from([{}, {}, {}, {"Content-Encoding": "gzip, gzip"}, {"Set-Cookie": "a=b"}])


@st.composite
def responses(draw: st.DrawFn, ran: str) -> httpx.Response:
    status, headers = draw(RESPONSES)
    return httpx.Response(status, headers={**headers, **draw(ENCODED)}, stream=stream(draw(pages(ran))))


@settings(max_examples=60)
@given(responses(RAN[0]), responses(RAN[1]))
def test_a_hostile_page_beside_a_healthy_one(first: httpx.Response, second: httpx.Response) -> None:
    found = asyncio.run(scraped(first, second))
    assert window_of(WELL, found[WELL]) == ALONE
    require_bounded(found.get(HOSTILE))


@given(pages(RAN[0]), st.lists(lines()))
def test_a_page_is_read_or_refused_whole(page: str, more: list[str]) -> None:
    try:
        first = read_text(page, {})
        again = read_text("\n".join([page, *more]), first)
    except ValueError:
        return
    assert first.keys() <= again.keys()
    assert all(again[line] == found for line, found in first.items())
