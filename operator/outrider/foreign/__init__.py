"""Everything that comes from outside, read in one order: bytes, then counts, then types.

Tenants, engine pods, Prometheus and hubs write it. `readers` declares what each reader admits and what that
may cost; `reading` has the order. Tests generate the most expensive input of every reader and measure it.
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
