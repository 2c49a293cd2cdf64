"""What an API server process measures and tests before it serves."""
