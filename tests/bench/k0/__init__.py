"""What K=0 costs beside a draft model, against a launch without one."""
