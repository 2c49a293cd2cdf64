"""What a pod with Outrider's plugin has, whatever its engine: its variables."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.runtimes.engine_launch import PUBLIC_KEY_FILE, SCHEDULE_FILE, SCHEDULE_FOLDER
from outrider_protocol.environment import (
    CANDIDATES_VARIABLE,
    CONTROL_PORT_VARIABLE,
    DRAIN_FILE_VARIABLE,
    K0_VARIABLE,
    POD_UID_VARIABLE,
    PUBLIC_KEY_FILE_VARIABLE,
    SELF_TEST_FILE_VARIABLE,
    STATIC_SCHEDULE_VARIABLE,
    SWEEP_VARIABLE,
)

VARIABLES: Mapping[str, str] = {
    STATIC_SCHEDULE_VARIABLE: f"{SCHEDULE_FOLDER}/{SCHEDULE_FILE}",
    PUBLIC_KEY_FILE_VARIABLE: f"{SCHEDULE_FOLDER}/{PUBLIC_KEY_FILE}",
    # In the pod's own volume, which outlives a container that a drafter ended.
    SELF_TEST_FILE_VARIABLE: "/tmp/outrider-self-test.json",
    DRAIN_FILE_VARIABLE: "/tmp/outrider-drain",
}
"""Those that are alike in all pods."""

LEFT_OUT = "leave it out, and `$patch: replace` and null for the list"
OWNED: Mapping[str, str] = {
    K0_VARIABLE: "set spec.speculation.tuning.k0",
    SWEEP_VARIABLE: "set spec.speculation.tuning.sweep",
    CANDIDATES_VARIABLE: "set spec.speculation.candidates",
    POD_UID_VARIABLE: LEFT_OUT,
    CONTROL_PORT_VARIABLE: LEFT_OUT,
    **dict.fromkeys(VARIABLES, LEFT_OUT),
}
"""Name -> what to do instead of another value in `spec.podTemplate`."""

WHY: Mapping[str, str] = {
    CANDIDATES_VARIABLE: "the K that the plugin may choose among",
    K0_VARIABLE: "from spec.speculation.tuning.k0",
    SWEEP_VARIABLE: "from spec.speculation.tuning.sweep",
    POD_UID_VARIABLE: "requests of the operator are signed for this pod alone",
    CONTROL_PORT_VARIABLE: "the control API has a port of its own, for a NetworkPolicy",
    "DO_NOT_TRACK": "nothing is sent to makers of libraries",
    "HF_HUB_OFFLINE": "weights are in the pod already",
    STATIC_SCHEDULE_VARIABLE: "where the plugin reads the static schedule",
    PUBLIC_KEY_FILE_VARIABLE: "whose requests the plugin takes",
    SELF_TEST_FILE_VARIABLE: "where the plugin keeps what its self-test found",
    DRAIN_FILE_VARIABLE: "how a stopping pod learns that it takes no new requests",
}
"""Name -> why a pod has the variable."""
