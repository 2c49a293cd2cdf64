"""Paths and ports inside a pod that the operator and the engines agree on."""

SCHEDULE_FOLDER = "/etc/outrider/schedule"
"""Where a pod mounts the ConfigMap with the static schedule and the operator's key."""
SCHEDULE_FILE = "schedule.json"
PUBLIC_KEY_FILE = "control-key.pub"
MASTER_PORTS = (29_501, 29_502)
"""Where the leader of a group waits for its workers; the second where engines serve on the first."""
