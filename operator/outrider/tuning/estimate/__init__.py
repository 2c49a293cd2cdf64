"""What is believed of an engine: step times, acceptance, the tax of K=0."""
