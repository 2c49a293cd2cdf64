"""Readers of foreign input, with checks in one order: bytes, then counts, then types.

Tenants, engine pods, Prometheus and hubs write this input. `readers` declares the limits and the cost of each
reader, and `reading` applies them. Tests generate the most expensive input of every reader and measure it.
"""

from outrider.foreign.readers import READERS, Reader
from outrider.foreign.reading import InputRefused, read_as, read_json, require_room, require_size, within

__all__ = [
    "READERS",
    "InputRefused",
    "Reader",
    "read_as",
    "read_json",
    "require_room",
    "require_size",
    "within",
]
