"""Tune: observe the engines of each model, decide, push the schedule to them, report."""
