"""Export of spans in batches on a thread, to a collector that may be unreachable."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

from outrider import __version__

log = logging.getLogger(__name__)

_SCOPE = "outrider"
_EXPORT_SECONDS = 5.0
"""Timeout in seconds for one batch with its retries."""


class Collector(SpanExporter):
    """OTLP over HTTP, with a log line when the collector stops accepting spans and when it resumes."""

    def __init__(self, url: str) -> None:
        # The library logs each batch, each retry and each lost span.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._url = url
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=_EXPORT_SECONDS)
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch."""
        result = self._exporter.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if failed and not self._failing:
            log.warning(
                "%s accepts no traces, so spans are lost until it does; nothing else is affected", self._url
            )
        elif self._failing and not failed:
            log.info("%s accepts traces again", self._url)
        self._failing = failed
        return result

    def shutdown(self) -> None:
        """Cancel the present export."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def sending_to(exporter: SpanExporter, *, stop_seconds: float = 2.0) -> Iterator[Tracer]:
    """A tracer that sends its spans to the exporter. At most 2,048 wait; more are lost.

    stop_seconds: timeout of the last batch, for which the end of the process waits.
    """
    about = {
        "service.name": _SCOPE,
        "service.version": __version__,
        "service.instance.id": socket.gethostname(),
    }
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield provider.get_tracer(_SCOPE, __version__)
    finally:
        # Without a limit it would wait half a minute for a silent collector.
        closing = threading.Thread(target=provider.shutdown, name="end of traces", daemon=True)
        closing.start()
        closing.join(stop_seconds)
