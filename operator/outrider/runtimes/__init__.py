"""The inference engines: one folder each, and the one registry of them, by `spec.engine.runtime`."""

from __future__ import annotations

from functools import lru_cache

from outrider.api.spec import RuntimeKind, Spec
from outrider.runtimes.metrics import Dialects, MetricsDialect
from outrider.runtimes.runtime import Runtime
from outrider.runtimes.vllm.runtime import Vllm

RUNTIMES: dict[RuntimeKind, Runtime] = {RuntimeKind.VLLM: Vllm()}


def runtime_of(spec: Spec) -> Runtime:
    """The engine that the spec asks for."""
    return RUNTIMES[spec.engine.runtime]


def missing_model(log: str) -> str | None:
    """`Runtime.missing_model` where only the log is known. No runtime takes another's words for its own."""
    paths = (runtime.missing_model(log) for runtime in RUNTIMES.values())
    return next((path for path in paths if path is not None), None)


def dialects() -> Dialects:
    """The metrics of all runtimes, since one source reads the pods of all."""
    return _dialects(tuple(runtime.metrics for runtime in RUNTIMES.values()))


@lru_cache(maxsize=8)
def _dialects(all_of_them: tuple[MetricsDialect, ...]) -> Dialects:
    return Dialects(all_of_them)
