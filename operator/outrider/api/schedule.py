"""The schedule and the bins of batch sizes, which the operator shares with the plugin."""

from __future__ import annotations

from outrider_protocol.bins import bin_low, bin_of, geometric_bins
from outrider_protocol.schedule import MAX_ROWS, Row, Schedule

__all__ = ["MAX_ROWS", "Row", "Schedule", "bin_low", "bin_of", "geometric_bins"]
