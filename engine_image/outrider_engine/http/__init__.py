"""What an API server process adds to vLLM's HTTP server."""
