"""Tests against the local cluster: real API server, operator, Prometheus and vLLM."""
