"""What the engine core may do: schedule, lease, probe, and the answers of the control API."""
