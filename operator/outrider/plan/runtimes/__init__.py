"""One module per inference engine: arguments, environment, limits."""
