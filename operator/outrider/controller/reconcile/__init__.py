"""Reconcile: from a model's spec to its children in the cluster, and their state in its status."""
