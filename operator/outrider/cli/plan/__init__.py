"""``outrider plan``: does it fit, what to expect, what it costs; and a manifest to start with."""
