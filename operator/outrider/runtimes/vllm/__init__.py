"""vLLM: everything that only this runtime knows."""
