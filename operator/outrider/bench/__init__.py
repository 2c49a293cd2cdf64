"""What a bench of a live model asks GuideLLM for, and what its figures come to. Pure."""
