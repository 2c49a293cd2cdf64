"""``outrider doctor``: what in a cluster keeps models from being served and tuned."""
