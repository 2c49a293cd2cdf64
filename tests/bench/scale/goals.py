"""The goals of an operator with 1,000 models of three pods on two cores, and what runs say of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from outrider.controller.settings import MetricsSourceKind as Source
from tests.bench.scale.figures import Figures, exponent, ratios, shown
from tests.bench.scale.slow import AFTERWARDS, STEADY, Slow

MODELS = 1000
_UNCHANGED = ("CPU per pod and minute, ms", "pushes per pod and minute", "scrapes per pod and minute")
"""What must not depend on a slow part."""
_OF_OTHERS = (*_UNCHANGED, "push p50, s")
"""The same for models beside a slow one."""

Sizes = Mapping[int, Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures by size. runs: by what ran, source, what was slow, and shards."""

    runs: Mapping[tuple[str, str, str, int], Sizes]

    def operator(
        self, source: Source = Source.POD_SCRAPE, *, slow: Slow = Slow.NOTHING, shards: int = 1
    ) -> Sizes:
        """The operator's runs of a kind."""
        return self.runs.get(("operator", source.value, slow.value, shards), {})

    def reference(self) -> Sizes:
        """The runs of the controller in Go."""
        found = (sizes for (of, *_), sizes in self.runs.items() if of == "reference")
        return {models: size for sizes in found for models, size in sizes.items()}

    def shards(self) -> Sequence[int]:
        """Each number of shards above 1."""
        return sorted({shards for *_, shards in self.runs if shards > 1})

    def values(self, figure: str) -> Iterable[float]:
        """Each value of a figure, whatever was measured."""
        for sizes in self.runs.values():
            for size in sizes.values():
                yield from (v for name, v in size.items() if name.endswith(figure) and v is not None)


@dataclass(frozen=True, slots=True)
class Found:
    """A value, and the words for the size that has it."""

    value: float
    at: str


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit. least: whether the value must reach it, and not stay below."""

    name: str
    limit: str
    most: float
    find: Callable[[Measured], Found | None]
    least: bool = False


def verdict(goal: Goal, runs: Measured) -> str:
    """The value with the size at which it was measured; bold where the goal is missed."""
    found = goal.find(runs)
    if found is None:
        return "not measured"
    met = found.value >= goal.most if goal.least else found.value <= goal.most
    words = f"{shown(found.value)}{found.at}"
    return words if met else f"**missed**: {words}"


def _figure(name: str, source: Source = Source.POD_SCRAPE) -> Callable[[Measured], Found | None]:
    return lambda runs: _largest(runs.operator(source), name)


def _largest(sizes: Sizes, name: str) -> Found | None:
    """A figure of the largest size that has it."""
    known = [(models, size[name]) for models, size in sizes.items() if size.get(name) is not None]
    if not known:
        return None
    models, value = max(known)
    assert value is not None
    return Found(value, _at(models))


def _at(models: int) -> str:
    return "" if models == MODELS else f" ({models:,} models)"


def _beside_go(runs: Measured) -> Found | None:
    ours, go = runs.operator(), runs.reference()
    ratio: dict[int, Figures] = {}
    for models in set(ours) & set(go):
        a, b = (
            ours[models].get("creation: all Deployments, s"),
            go[models].get("reference: all Deployments, s"),
        )
        ratio[models] = {"ratio": a / b if a is not None and b else None}
    return _largest(ratio, "ratio")


def _growth(runs: Measured) -> Found | None:
    sizes = runs.operator()
    known = {n: v for n, size in sizes.items() if n >= 100 and (v := size.get("steady: cores")) is not None}
    power = exponent(known)
    return None if power is None else Found(power, f" ({min(known):,} to {max(known):,} models)")


def _of_slow(slow: Slow) -> Callable[[Measured], Found | None]:
    def find(runs: Measured) -> Found | None:
        sizes = runs.operator(slow=slow)
        if not sizes:
            return None
        models = max(sizes)
        compared = ratios(sizes[models], f"slow {slow}", (STEADY, AFTERWARDS))
        names = _OF_OTHERS if slow.of_one_model else _UNCHANGED
        changes = {name: 100 * abs(compared[name] - 1) for name in names if name in compared}
        if not changes:
            return None
        name = max(changes, key=lambda each: changes[each])
        return Found(changes[name], f" % ({name}; {models:,} models)")

    return find


def _four_shards(runs: Measured) -> Found | None:
    """The cores of one process with all models, divided by those of the busiest of four."""
    ratio: dict[int, Figures] = {}
    for models, found in runs.operator(shards=4).items():
        one = runs.operator().get(models, {}).get("steady: cores")
        each = [found.get(f"steady: cores of process {number}") for number in range(1, 5)]
        busiest = max((cores for cores in each if cores is not None), default=0.0)
        ratio[models] = {"ratio": one / busiest if one and busiest else None}
    return _largest(ratio, "ratio")


GOALS: Sequence[Goal] = (
    Goal("cores in steady work", "0.5", 0.5, _figure("steady: cores")),
    Goal("memory, PodScrape, MiB", "400", 400, _figure("steady: peak of memory, MiB")),
    Goal("memory, Prometheus, MiB", "400", 400, _figure("steady: peak of memory, MiB", Source.PROMETHEUS)),
    Goal("tick, PodScrape, median, s", "5", 5, _figure("steady: tick, median, s")),
    Goal("tick, Prometheus, median, s", "5", 5, _figure("steady: tick, median, s", Source.PROMETHEUS)),
    Goal("longest block of the event loop, s", "0.2", 0.2, _figure("steady: longest block of the loop, s")),
    Goal("the same at creation, s", "0.2", 0.2, _figure("creation: longest block of the loop, s")),
    Goal("push p99, s", "0.5", 0.5, _figure("steady: push p99, s")),
    Goal("failed pushes", "none", 0, _figure("steady: failed pushes")),
    Goal("created at once: all Deployments, as a ratio to Go", "1.5", 1.5, _beside_go),
    Goal("planned restart: all engines renewed, s", "30", 30, _figure("restart: all engines renewed, s")),
    Goal("planned restart: lapsed leases", "none", 0, _figure("restart: lapsed leases")),
    Goal("crash of the leader: all engines renewed, s", "30", 30, _figure("crash: all engines renewed, s")),
    Goal("crash of the leader: lapsed leases", "none", 0, _figure("crash: lapsed leases")),
    *(
        Goal(f"{words}: largest change of the others", "10 %", 10, _of_slow(slow))
        for slow, words in (
            (Slow.SLOW_MODEL, "one model late by 200 ms"),
            (Slow.SILENT_MODEL, "one silent model"),
            (Slow.PODS, "every pod late by 200 ms"),
            (Slow.API_SERVER, "API server late by 200 ms"),
        )
    ),
    Goal("exponent of growth of the cores", "1.05", 1.05, _growth),
    Goal("cores of one process, divided by the busiest of 4 shards", "at least 3.5", 3.5, _four_shards, True),
)
