"""The tuning law: windows of measurements in, a table out. No I/O, no clock, no globals."""
