"""Requests, and how well their text can be drafted."""
