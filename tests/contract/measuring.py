"""What an engine has counted, by the plugin and by vLLM, and load of a known size."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import httpx

from tests.contract.engine import PLAIN, REQUEST_SECONDS, Engine
from tests.contract.factories import a_constant, a_push

T = TypeVar("T")

SETTLE_SECONDS = 60.0
TRIES = 8

SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')

ACCEPTED, LIMITED_ACCEPTED = "outrider:accepted_tokens_total", "outrider:limited_accepted_tokens_total"
PAIRS = {
    "outrider:emitted_tokens_total": "vllm:generation_tokens_total",
    "outrider:draft_tokens_total": "vllm:spec_decode_num_draft_tokens_total",
    ACCEPTED: "vllm:spec_decode_num_accepted_tokens_total",
    "outrider:prefill_tokens_total": "vllm:prompt_tokens_by_source_total{local_compute}",
}
"""Sums of the plugin, and those of vLLM that they must equal."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One scrape of ``/metrics``, or the difference of two."""

    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def __sub__(self, other: Samples) -> Samples:
        return Samples({key: value - other.values.get(key, 0.0) for key, value in self.values.items()})

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples with these labels; 0 when there are none."""
        wanted = set(labels.items())
        return sum(value for (found, have), value in self.values.items() if found == name and wanted <= have)

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The sums of a metric by one label, without those that are 0."""
        sums: dict[str, float] = defaultdict(float)
        wanted = set(labels.items())
        for (found, have), value in self.values.items():
            if found == name and wanted <= have and value:
                sums[dict(have)[label]] += value
        return dict(sums)

    @property
    def has_the_plugins(self) -> bool:
        """Whether the page has samples of the plugin."""
        return any(name.startswith("outrider:") for name, _ in self.values)

    def disagreements(self) -> dict[str, tuple[float, float]]:
        """Every pair of sums that differ: the plugin's and vLLM's."""
        found = {ours: (self.total(ours), self._of_vllm(theirs)) for ours, theirs in PAIRS.items()}
        # vLLM counts what adaptive verification trims, and drafts under a K limit, too.
        for name, others in {
            "outrider:draft_tokens_total": ("trimmed_draft", "limited_draft"),
            ACCEPTED: ("limited_accepted",),
        }.items():
            ours, theirs = found[name]
            found[name] = ours + sum(self.total(f"outrider:{other}_tokens_total") for other in others), theirs
        found |= {
            f"accepted at {position}": (
                sum(self.total(name, position=position) for name in (ACCEPTED, LIMITED_ACCEPTED)),
                self.total("vllm:spec_decode_num_accepted_tokens_per_pos_total", position=position),
            )
            for position in self.by("outrider:draft_tokens_total", "position")
        }
        return {name: pair for name, pair in found.items() if pair[0] != pair[1]}

    def _of_vllm(self, name: str) -> float:
        bare, _, source = name.rstrip("}").partition("{")
        return self.total(bare, source=source) if source else self.total(bare)


def scrape(engine: Engine) -> Samples:
    """`GET /metrics`."""
    answer = httpx.get(f"{engine.url}/metrics", timeout=REQUEST_SECONDS, trust_env=False, verify=PLAIN)
    answer.raise_for_status()
    return Samples(
        {
            (found["name"], frozenset(LABEL.findall(found["labels"] or ""))): float(found["value"])
            for found in SAMPLE.finditer(answer.text)
        }
    )


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = SETTLE_SECONDS) -> None:
    """Wait for a condition; what it would have meant is the failure's text."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def settled(engine: Engine, *, before: Samples, tokens: int) -> Samples:
    """What was counted since ``before``, once vLLM's front end has counted so many generated tokens."""
    latest = [scrape(engine)]

    def arrived() -> bool:
        latest.append(scrape(engine))
        # Where the engine core is late, the plugin leaves its samples out of a page.
        whole = latest[-1].has_the_plugins or not before.has_the_plugins
        return whole and (latest[-1] - before).total("vllm:generation_tokens_total") >= tokens

    wait_until(arrived, f"vLLM did not count {tokens} tokens")
    return latest[-1] - before


def run_streams(engine: Engine, *, streams: int, requests: int, max_tokens: int, name: str = "") -> int:
    """Closed-loop load; the number of tokens that it generated."""

    def one_stream(stream: int) -> None:
        for index in range(requests):
            engine.complete(max_tokens=max_tokens, prompt=f"def {name}{stream}_{index}(argv):\n    return ")

    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(one_stream, range(streams)))
    return streams * requests * max_tokens


def sometime(found: Iterator[T], holds: Callable[[T], bool], *, tries: int = TRIES) -> list[T]:
    """Measurements of time up to the first for which it holds, which is the last of them.

    A machine that is busy for a moment can void any of them. A defect is in all of them. Reports show every
    try: the last one alone would be the best of several.
    """
    seen = list[T]()
    for one in islice(found, tries):
        seen.append(one)
        if holds(one):
            return seen
    raise AssertionError(f"in none of {tries} tries: {seen}")


def assert_a_lone_request_is_in_its_cell(engine: Engine, term: int, *, k: int, tokens: int) -> Samples:
    """What is counted of a single request: every step in the cell of batch size 1 and of this K."""
    engine.put(a_push(term=term, schedule=a_constant(k))).raise_for_status()
    before = scrape(engine)
    engine.complete(max_tokens=tokens)
    counted, cell = settled(engine, before=before, tokens=tokens), {"batch": "1", "k": str(k)}
    assert set(counted.by("outrider:steps_total", "batch")) == {"1"}
    assert set(counted.by("outrider:steps_total", "k")) == {str(k)}
    assert counted.total("outrider:emitted_tokens_total", **cell) == tokens
    positions = counted.by("outrider:draft_tokens_total", "position", **cell)
    assert sorted(positions) == [str(position) for position in range(k)]
    return counted


def assert_every_token_is_counted(engine: Engine, term: int, *, ks: Sequence[int]) -> None:
    """While the table changes from one of ``ks`` to the next; every sum agrees with vLLM's own."""
    before, generated = scrape(engine), 0
    for epoch, k in enumerate(ks, start=1):
        engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        generated += run_streams(engine, streams=5, requests=2, max_tokens=24, name=f"k{k}")
    counted = settled(engine, before=before, tokens=generated)
    assert counted.disagreements() == {}
    assert counted.total("outrider:emitted_tokens_total") == generated
    assert counted.total("outrider:draft_tokens_total") > counted.total("outrider:accepted_tokens_total") > 0
