"""The inference engines: one folder each, named for its value of `spec.engine.runtime` in small letters.

The package of a folder has the runtime as `RUNTIME`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from outrider.api.engines import RuntimeKind
from outrider.api.spec import Spec
from outrider.runtimes.metrics import Dialects
from outrider.runtimes.runtime import Runtime

RUNTIMES: dict[RuntimeKind, Runtime] = {
    kind: import_module(f"outrider.runtimes.{kind.lower()}").RUNTIME for kind in RuntimeKind
}


def runtime_of(spec: Spec) -> Runtime:
    """The engine that the spec asks for."""
    return RUNTIMES[spec.engine.runtime]


def missing_model(log: str) -> str | None:
    """`Runtime.missing_model` where only the log is known. No runtime takes another's words for its own."""
    paths = (runtime.missing_model(log) for runtime in RUNTIMES.values())
    return next((path for path in paths if path is not None), None)


def remedy(cause: str) -> str | None:
    """`Runtime.remedy` where only the cause is known. No runtime takes another's words for its own."""
    found = (runtime.remedy(cause) for runtime in RUNTIMES.values())
    return next((change for change in found if change is not None), None)


@cache
def dialects() -> Dialects:
    """The metrics of all runtimes, since one source reads the pods of all."""
    return Dialects(runtime.metrics for runtime in RUNTIMES.values())
