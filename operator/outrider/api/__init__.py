"""The SpeculativeModel resource: spec, status, conditions, and the schedule that they share."""
