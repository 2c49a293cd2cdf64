"""The tuning law against every baseline, on tables and on moving traffic."""
