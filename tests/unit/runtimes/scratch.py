"""A made-up runtime that has nothing in common with vLLM: gauges only, and no control of a running engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import pairwise
from typing import Any, cast

from outrider.api.engine import Engine
from outrider.api.engines import ADMISSIONS, RuntimeKind
from outrider.api.engines.admission import Admission
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes import RUNTIMES, dialects
from outrider.runtimes.control import NO_CONTROL, EngineControl
from outrider.runtimes.engine_launch import EngineLaunch
from outrider.runtimes.flag_table import FlagTable
from outrider.runtimes.metrics import Counter, MetricsDialect, Samples
from outrider.runtimes.runtime import Args, EngineContainer, EngineImage
from outrider_protocol.methods import Method
from outrider_protocol.releases import parse_version
from tests.unit.plan.factories import a_model


class _More(StrEnum):
    SCRATCH = "Scratch"


SCRATCH = cast(RuntimeKind, _More.SCRATCH)


RUNNING, SPEED, LENGTH, RATE = (
    "scratch_running_requests",
    "scratch_tokens_per_second",
    "scratch_accept_length",
    "scratch_accept_rate",
)


def reckon(series: Mapping[Any, Samples]) -> Mapping[Counter, Samples]:
    """Sums of its gauges over time, each of which holds until the next scrape."""
    gauges = [dict(series.get(name, ())) for name in (RUNNING, SPEED, LENGTH, RATE)]
    times = sorted(set(gauges[0]).intersection(*gauges[1:]))
    sums = dict.fromkeys(Counter, 0.0)
    found: dict[Counter, list[tuple[float, float]]] = {
        counter: [(at, 0.0) for at in times[:1]] for counter in Counter
    }
    for before, at in pairwise(times):
        running, speed, length, rate = (gauge[at] for gauge in gauges)
        tokens = speed * (at - before)
        steps = tokens / length
        accepted = tokens - steps
        for counter, more in {
            Counter.GENERATED_TOKENS: tokens,
            Counter.REQUEST_STEPS: steps,
            Counter.ENGINE_STEPS: steps / running,
            Counter.DECODE_SECONDS: running * (at - before),
            Counter.DRAFTS: steps,
            Counter.DRAFT_TOKENS: accepted / rate,
            Counter.ACCEPTED_TOKENS: accepted,
        }.items():
            sums[counter] += more
        for counter, samples in found.items():
            samples.append((at, sums[counter]))
    return found


DIALECT = MetricsDialect(counters={}, gauges=(RUNNING, SPEED, LENGTH, RATE), reckon=reckon)


ADMISSION = Admission(
    releases="all",
    version="",
    stock_image="scratch",
    owned_flags={},
    generating={},
    features=frozenset(),
    methods=tuple(Method),
)


class Scratch:
    """An engine that has nothing in common with vLLM."""

    metrics = DIALECT
    flags = FlagTable("Scratch", parse_version, {})
    owned_variables: Mapping[str, str] = {"SCRATCH_MODE": "leave it out"}
    joined_variables: Mapping[str, frozenset[str]] = {}

    def control(self, spec: Spec) -> EngineControl:  # noqa: ARG002
        return NO_CONTROL

    def flag_additions(self, spec: Spec, words: Sequence[str], *, stock: bool) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    def variable_additions(self, names: Sequence[str]) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    def image(self, engine: Engine, images: Mapping[str, str]) -> EngineImage | None:  # noqa: ARG002
        return EngineImage(f"scratch:{engine.version}", has_plugin=True)

    def unsupported_reason(self, spec: Spec, weights: WeightsStatus | None) -> str | None:  # noqa: ARG002
        return None if spec.parallelism.pipeline == 1 else "no pipelines; set spec.parallelism.pipeline to 1"

    def settled(self, spec: Spec, weights: WeightsStatus | None) -> Spec:  # noqa: ARG002
        return spec

    def advice(self, spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def container(self, launch: EngineLaunch, *, served_name: str) -> EngineContainer:
        return EngineContainer(
            command=("scratch",),
            arguments=("serve", served_name, str(launch.spec.speculation.num_speculative_tokens)),
            environment={"SCRATCH_MODE": "draft"},
            pod_uid_variable=None,
            control_port_variable=None,
            health_path="/alive",
            readiness_path="/ready",
            pre_stop={"sleep": {"seconds": 1}},
            seconds_to_end=7,
        )

    def max_num_seqs(self, args: Args) -> int | None:  # noqa: ARG002
        return None

    def largest_batch(self, args: Args) -> int:  # noqa: ARG002
        return 8

    def default_max_num_seqs(self, gpu: str, memory_bytes: float) -> int:  # noqa: ARG002
        return 8

    def max_num_batched_tokens(self, args: Args) -> int | None:  # noqa: ARG002
        return None

    def gpu_memory_share(self, args: Args) -> float:  # noqa: ARG002
        return 0.5

    def remedy(self, cause: str) -> str | None:
        return "Set spec.engine.args.paper" if cause == "no paper" else None

    def missing_model(self, log: str) -> str | None:
        return log.removeprefix("nothing at ") if log.startswith("nothing at /") else None


def a_scratch_model(**spec: object) -> SpeculativeModel:
    """As admission gives it, once the enum has the value."""
    model = a_model(**spec)  # type: ignore[arg-type]
    engine = model.spec.engine.model_copy(update={"runtime": SCRATCH})
    return model.model_copy(update={"spec": model.spec.model_copy(update={"engine": engine})})


@contextmanager
def registered() -> Iterator[None]:
    """The runtime is in the registry."""
    RUNTIMES[SCRATCH] = Scratch()
    ADMISSIONS[SCRATCH] = ADMISSION
    dialects.cache_clear()
    try:
        yield
    finally:
        del RUNTIMES[SCRATCH], ADMISSIONS[SCRATCH]
        dialects.cache_clear()
