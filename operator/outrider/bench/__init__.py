"""The load that a bench asks GuideLLM for, and the evaluation of its figures. Pure."""
