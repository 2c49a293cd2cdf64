"""Prometheus answers wrongly, late or not at all: the condition says so, and engines keep what they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from tests.faults.faults import Effect, Fault
from tests.faults.kills import Course, Under, live, live_until
from tests.faults.life import SETTINGS, Life, a_life
from tests.faults.oracles import complaints
from tests.faults.place import Place
from tests.faults.prometheus import (
    ERROR,
    Stopped,
    a_prometheus,
    backwards,
    of_rows,
    of_samples,
    too_many,
    without,
)
from tests.faults.proxy import Proxy, a_proxy

pytestmark = pytest.mark.nightly("long")

_UNREACHABLE, _ERROR = "PrometheusUnreachable", "PrometheusError"
_TEN_MINUTES = 600.0


def rewritten(rewrite: Callable[[bytes], bytes]) -> Fault:
    return Fault(Effect.REWRITE, rewrite=rewrite)


CASES: Mapping[str, tuple[Fault, str]] = {
    "every connection ends": (Fault(Effect.CUT), _UNREACHABLE),
    "an answer takes longer than the limit": (Fault(Effect.DELAY, seconds=3.0), _UNREACHABLE),
    "there is no answer": (Fault(Effect.FREEZE), _UNREACHABLE),
    "the body hangs": (Fault(Effect.HANG), _UNREACHABLE),
    "half of the body arrives": (Fault(Effect.TRUNCATE), _UNREACHABLE),
    "it is overloaded": (Fault(Effect.STATUS, status=429, retry_after=60), _ERROR),
    "it answers with 500": (Fault(Effect.STATUS, status=500), _ERROR),
    "the answer is no JSON": (Fault(Effect.GARBAGE), _ERROR),
    "200 with status error": (rewritten(lambda _: ERROR), _ERROR),
    "no value is a number": (rewritten(of_samples(lambda at, _: (at, "NaN"))), "NoSeries"),
    "there are no rows": (rewritten(of_rows(lambda _: [])), "NoSeries"),
    "there are too many series": (rewritten(of_rows(too_many)), "MetricsUnreadable"),
    "it does not scrape any more": (rewritten(Stopped()), "MetricsStale"),
    "its clock is slow": (rewritten(of_samples(lambda at, v: (at - _TEN_MINUTES, v))), "MetricsStale"),
    "its clock is fast": (rewritten(of_samples(lambda at, v: (at + _TEN_MINUTES, v))), "MetricsStale"),
    "counters fall": (rewritten(of_rows(backwards)), "CounterReset"),
    "a metric is missing": (rewritten(without("vllm:generation_tokens_total")), "NoSeries"),
}
"""What happens to every answer, and the reason that MetricsAvailable has then."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A life whose operator reads Prometheus behind a proxy."""

    life: Life
    prometheus: Proxy

    def until_measured(self) -> None:
        self.life.until(lambda: "" if self.metrics["status"] == "True" else f"{self.metrics}")

    def until_it_says(self, reason: str) -> None:
        self.life.until(lambda: "" if self.metrics["reason"] == reason else f"{reason}: {self.metrics}")

    @property
    def metrics(self) -> Mapping[str, str]:
        return {"status": "", "reason": "", **self.life.condition("MetricsAvailable")}

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """In the block no pod starts, no request fails, and all engines take new schedules."""
        started = set(self.life.history.started)
        yield
        self.life.override(5)
        self.life.settle(replace(self.life.wanted, k=5))
        self.life.override(3)
        self.life.settle(self.life.wanted)
        assert self.life.history.started == started
        assert self.life.history.troubles() == (0, [])
        assert self.life.client.failed == []
        assert complaints(self.life.operator.log) == []
        assert self.life.operator.starts == 1


def settings(url: str) -> dict[str, str]:
    return {
        **SETTINGS,
        "OUTRIDER_METRICS_SOURCE": "Prometheus",
        "OUTRIDER_PROMETHEUS_URL": url,
        "OUTRIDER_PROMETHEUS_TIMEOUT_SECONDS": "1",
    }


@pytest.fixture(scope="module")
def prometheus(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with a_prometheus(place.server, tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture(scope="module")
def observed(
    place: Place, namespaces: Callable[[], str], reference: Course, prometheus: str
) -> Iterator[Observed]:
    """One for all cases; each waits until it is measured again."""
    with (
        a_proxy(place.loop, prometheus) as proxy,
        a_life(place, namespaces(), settings(f"http://127.0.0.1:{proxy.port}")) as life,
    ):
        live_until(life, "retune", reference)
        yield Observed(life, proxy)


@pytest.mark.parametrize("what", CASES)
def test_a_wrong_answer_is_named_and_harms_no_engine(what: str, observed: Observed) -> None:
    fault, reason = CASES[what]
    observed.until_measured()
    with observed.prometheus.gate.under(fault), observed.unharmed():
        observed.until_it_says(reason)
    observed.until_measured()


def test_a_prometheus_that_refuses_connections_harms_no_engine(observed: Observed) -> None:
    observed.until_measured()
    observed.life.place.loop.run(observed.prometheus.stop())
    try:
        with observed.unharmed():
            observed.until_it_says(_UNREACHABLE)
    finally:
        observed.life.place.loop.run(observed.prometheus.start())
    observed.until_measured()


def test_a_prometheus_without_an_address_harms_no_engine(
    place: Place, namespaces: Callable[[], str], reference: Course, observed: Observed
) -> None:
    with a_life(place, namespaces(), settings("http://prometheus.invalid:9090")) as life:
        live_until(life, "retune", reference)
        without_address = Observed(life, observed.prometheus)
        with without_address.unharmed():
            without_address.until_it_says(_UNREACHABLE)


def test_a_whole_life_under_errors_of_prometheus_leaves_no_trace(
    place: Place, namespaces: Callable[[], str], reference: Course, prometheus: str
) -> None:
    faults = (
        Fault(Effect.STATUS, every=3, status=500),
        Fault(Effect.CUT, every=4),
        rewritten(lambda _: ERROR),
    )
    with a_proxy(place.loop, prometheus) as proxy, proxy.gate.under(*faults[:2], replace(faults[2], every=5)):
        under = Under(settings=settings(f"http://127.0.0.1:{proxy.port}"))
        course = live(place, namespaces(), under, reference)
    assert not course.problems, "\n".join(course.problems)
