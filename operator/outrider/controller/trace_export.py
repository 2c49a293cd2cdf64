"""How spans leave the process: in batches, by a thread of their own, to a collector that may be away."""

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
"""For one batch, with its repetitions."""
_STOP_SECONDS = 2.0
"""For the last batch; the end of the process waits for it."""


class Collector(SpanExporter):
    """OTLP over HTTP. The log says when the collector stops taking spans, and when it takes them again."""

    def __init__(self, url: str) -> None:
        # It logs each batch, each repetition and each lost span.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._url = url
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=_EXPORT_SECONDS)
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch."""
        result = self._exporter.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if failed and not self._failing:
            log.warning("%s takes no traces; they are lost until it does, and nothing else is", self._url)
        elif self._failing and not failed:
            log.info("%s takes traces again", self._url)
        self._failing = failed
        return result

    def shutdown(self) -> None:
        """Give up what is under way."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def sending_to(exporter: SpanExporter) -> Iterator[Tracer]:
    """A tracer whose spans the exporter gets. At most 2,048 wait; more are lost."""
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
        # By itself it would wait half a minute for a collector that is silent.
        closing = threading.Thread(target=provider.shutdown, name="end of traces", daemon=True)
        closing.start()
        closing.join(_STOP_SECONDS)
