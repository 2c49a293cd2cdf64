"""``outrider verify``: whether speculation changes the answers of a live model."""
