"""What was measured: windows of counters, and the readings in them."""
