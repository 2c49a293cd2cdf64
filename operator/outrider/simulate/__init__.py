"""Engines and traffic that replay against the tuning law, without a cluster.

Pure: seeds are injected, no clock is read.
"""
