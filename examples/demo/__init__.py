"""The demo: a model under changing load, tuned live, in comparison with fixed K."""
