"""Does the stand-in replay an engine? ``python -m tests.bench.twin``; wants a quiet machine."""
