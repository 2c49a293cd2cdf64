"""What only a GPU can show of the engine: ``make gpu-check``."""
