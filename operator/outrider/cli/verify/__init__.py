"""``outrider verify``: does speculation change the answers of a live model?"""
