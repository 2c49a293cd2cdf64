"""``outrider bench``: what speculation is worth on a live model, by GuideLLM."""
