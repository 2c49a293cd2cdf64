"""Client of the engine's control API."""
