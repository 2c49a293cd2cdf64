"""Environment variables that the operator writes into a pod and the plugin reads."""

from __future__ import annotations

STATIC_SCHEDULE_VARIABLE = "OUTRIDER_STATIC_SCHEDULE_FILE"
PUBLIC_KEY_FILE_VARIABLE = "OUTRIDER_PUBLIC_KEY_FILE"
POD_UID_VARIABLE = "OUTRIDER_POD_UID"
"""Requests are signed for one pod, by its UID, which no other pod ever has."""
CONTROL_PORT_VARIABLE = "OUTRIDER_CONTROL_PORT"
"""A port of its own for the control API, so that a NetworkPolicy can admit the operator and not clients."""
CANDIDATES_VARIABLE = "OUTRIDER_CANDIDATES"
"""Every K that a schedule may have, such as ``0,1,3``; unset where the launch has its own schedule."""
K0_VARIABLE = "OUTRIDER_K0"
"""A value of `outrider_protocol.methods.K0`; unset is Auto."""
SWEEP_VARIABLE = "OUTRIDER_SWEEP"
"""``0``: the engine measures no startup profile."""
SELF_TEST_FILE_VARIABLE = "OUTRIDER_SELF_TEST_FILE"
DRAIN_FILE_VARIABLE = "OUTRIDER_DRAIN_FILE"
