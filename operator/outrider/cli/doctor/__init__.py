"""``outrider doctor``: what keeps models from being served and tuned in a cluster."""
