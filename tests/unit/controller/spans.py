"""Spans that stay in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from outrider.controller.trace_export import sending_to
from outrider.controller.traces import Traces


class Spans:
    """They can be looked at once the traces are closed."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()

    @contextmanager
    def traced(self) -> Iterator[Traces]:
        """Traces whose spans come here."""
        with sending_to(self._exporter) as tracer:
            yield Traces(tracer)

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]
