"""Reconcile: create the objects of a model from its spec, and write their state into its status."""
