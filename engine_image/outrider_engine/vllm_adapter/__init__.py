"""The inner names of vLLM."""
