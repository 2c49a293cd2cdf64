"""Tune: observe the engines of each model, decide, bring the table to them, report."""
