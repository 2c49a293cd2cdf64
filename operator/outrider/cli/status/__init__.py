"""``outrider status``: one screen for a person on call."""
