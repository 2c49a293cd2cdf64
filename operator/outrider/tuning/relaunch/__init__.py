"""Whether engines should be launched otherwise: with a drafter, without one, with another table."""
