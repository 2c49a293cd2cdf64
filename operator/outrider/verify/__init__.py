"""Evaluates whether speculation is lossless on a live model, by its answers. Pure."""
