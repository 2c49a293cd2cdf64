"""The resource that users touch: spec, status, conditions, and the table they share."""
