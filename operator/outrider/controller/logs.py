"""Log lines: JSON for machines, text for people."""

from __future__ import annotations

import logging

from pythonjsonlogger.json import JsonFormatter

from outrider.controller.settings import LogFormat

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_FIELDS = "%(asctime)s %(levelname)s %(name)s %(message)s"
_RENAMED = {"asctime": "time", "levelname": "severity", "name": "logger"}


def set_up_logs(log_format: LogFormat, level: str) -> None:
    """Send all log lines to standard error, once per process."""
    handler = logging.StreamHandler()
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonFormatter(_FIELDS, rename_fields=_RENAMED))
    else:
        handler.setFormatter(logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The libraries tell each request at INFO; kopf warns that signals are not its own here.
    for name in ("httpx", "httpcore", "urllib3", "prometheus_api_client"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.ERROR)
