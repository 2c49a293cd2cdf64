"""OpenTelemetry spans of a leader's work.

A span names the model and the reasons of its status. Texts of errors stay in the log, because they may quote
the API server or a pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Status, StatusCode, Tracer, get_current_span

from outrider.controller.stored import Key


class Traces:
    """Opens spans. Without a tracer there are none."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer

    @contextmanager
    def span(self, name: str, model: Key | None = None) -> Iterator[None]:
        """Open a span around a block. An error sets its type as the status, and is raised again."""
        if self._tracer is None:
            yield
            return
        about = {} if model is None else {"k8s.namespace.name": model.namespace, "outrider.model": model.name}
        with self._tracer.start_as_current_span(
            name, attributes=about, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise


def has_span() -> bool:
    """Whether there is a present span that a collector gets."""
    return get_current_span().is_recording()


def annotate_span(**facts: str | float | bool | None) -> None:
    """Set attributes ``outrider.…`` on the present span, if there is one. None is left out."""
    span = get_current_span()
    for name, value in facts.items():
        if value is not None:
            # Reasons are enumerations; the attribute is their value.
            span.set_attribute(f"outrider.{name}", str(value) if isinstance(value, str) else value)


@contextmanager
def open_traces(url: str | None) -> Iterator[Traces]:
    """Traces that are sent to ``url`` by OTLP over HTTP, or dropped if it is None."""
    if url is None:
        yield Traces()
        return
    # Imported only if needed: it takes half a second and some MiB.
    from outrider.controller.trace_export import Collector, sending_to

    with sending_to(Collector(url)) as tracer:
        yield Traces(tracer)
