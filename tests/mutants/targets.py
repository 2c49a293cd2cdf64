"""What is changed, and which tests have to notice."""

from __future__ import annotations

from collections.abc import Mapping

_LAW = " ".join(
    f"tests/unit/tuning/test_{name}.py"
    for name in (
        "guarded",
        "golden",
        "guardrails",
        "state",
        "choose",
        "explore",
        "stored",
        "unseen",
        "words",
        "law",
    )
)
_LEADING = "tests/unit/cluster tests/unit/controller -k 'lease or leader or process'"
_PUSHING = "tests/unit/engine/test_actuation.py tests/unit/tuning_loop"
_WINDOWS = " ".join(f"tests/unit/telemetry/test_{name}.py" for name in ("deltas", "windows", "cells"))
_PLUGIN = "tests/unit/engine_plugin"

TARGETS: Mapping[str, str] = {
    "operator/outrider/tuning/tuner.py": _LAW,
    "operator/outrider/tuning/choose/guardrails.py": _LAW,
    "operator/outrider/tuning/explore/probing.py": _LAW,
    "operator/outrider/tuning/choose/choice.py": _LAW,
    "operator/outrider/tuning/k0_comparison.py": (
        "tests/unit/tuning/test_k0_comparison.py tests/unit/tuning/test_tax.py"
    ),
    "operator/outrider/tuning/state.py": _LAW,
    "operator/outrider/tuning/moments.py": "tests/unit/tuning/test_moments.py",
    "operator/outrider/tuning/stored.py": "tests/unit/tuning/test_stored.py",
    "operator/outrider/controller/tune/launching.py": (
        "tests/unit/tuning_loop/test_launching.py tests/unit/tuning_loop/test_relaunches.py"
        " tests/unit/controller/test_launch_orders.py"
    ),
    "operator/outrider/controller/leader.py": _LEADING,
    "operator/outrider/controller/process.py": _LEADING,
    "operator/outrider/cluster/lease.py": _LEADING,
    "operator/outrider/cluster/term_lock.py": _LEADING,
    "operator/outrider/loop_thread.py": "tests/unit/transport/test_loop_thread.py",
    "operator/outrider/controller/http_server.py": "tests/unit/controller/test_http_server.py",
    "operator/outrider/controller/cpu_budget.py": "tests/unit/controller/test_cpu_budget.py",
    "operator/outrider/controller/tune/tuning_loop.py": "tests/unit/tuning_loop",
    "operator/outrider/cluster/client.py": "tests/unit/cluster/test_client.py",
    "operator/outrider/cluster/lists.py": "tests/unit/cluster/test_client.py",
    "operator/outrider/controller/store.py": "tests/unit/controller/test_store.py",
    "operator/outrider/controller/stored.py": "tests/unit/controller/test_store.py",
    "operator/outrider/controller/kept_fields.py": (
        "tests/unit/controller/test_store.py tests/unit/controller/test_children.py"
    ),
    "operator/outrider/controller/children.py": (
        "tests/unit/controller/test_children.py tests/unit/controller/test_reconciler.py"
    ),
    "operator/outrider/controller/other_installations.py": (
        "tests/unit/controller/test_other_installations.py"
    ),
    "operator/outrider/cluster/objects.py": "tests/unit/cluster/test_objects.py tests/unit/controller",
    "operator/outrider/controller/work_queue.py": "tests/unit/controller/test_work_queue.py",
    "operator/outrider/plan/network_policy.py": (
        "tests/unit/plan/test_network_policy.py tests/unit/plan/test_golden.py"
    ),
    "operator/outrider/plan/network_peers.py": "tests/unit/plan/test_network_policy.py",
    "operator/outrider/plan/owned_parts.py": "tests/unit/plan/test_owned_parts.py",
    "operator/outrider/controller/watch.py": "tests/unit/controller/test_watch.py",
    "operator/outrider/controller/tune/engine_tables.py": _PUSHING,
    "operator/outrider/controller/tune/actuation.py": _PUSHING,
    "operator/outrider/controller/tune/background_writes.py": "tests/unit/tuning_loop",
    "operator/outrider/transport.py": "tests/unit/transport tests/unit/engine",
    "operator/outrider/foreign/reading.py": "tests/unit/foreign/test_reading.py",
    "operator/outrider/controller/reconcile/revisions.py": "tests/unit/controller/test_revisions.py",
    "operator/outrider/engine/client.py": "tests/unit/engine",
    "operator/outrider/engine/signing.py": "tests/unit/engine tests/unit/engine_plugin/test_signature.py",
    "operator/outrider/engine/state.py": "tests/unit/engine",
    "operator/outrider/telemetry/budget.py": "tests/unit/telemetry/test_budget.py",
    "operator/outrider/telemetry/cells.py": _WINDOWS,
    "operator/outrider/telemetry/replicas.py": "tests/unit/telemetry/test_replicas.py",
    "operator/outrider/telemetry/windows.py": _WINDOWS,
    "engine_image/protocol/outrider_protocol/schedule.py": (
        "tests/unit/protocol/test_schedule.py tests/unit/api"
    ),
    "engine_image/protocol/outrider_protocol/control_api.py": (
        f"tests/unit/protocol/test_control_api.py {_PLUGIN}/test_signature.py"
    ),
    "engine_image/outrider_engine/control/parsing.py": f"{_PLUGIN}/test_parsing.py {_PLUGIN}/test_push.py",
    "engine_image/outrider_engine/control/push.py": f"{_PLUGIN}/test_push.py {_PLUGIN}/test_core.py",
    "engine_image/outrider_engine/control/core.py": f"{_PLUGIN}/test_core.py {_PLUGIN}/test_engine_cores.py",
    "engine_image/outrider_engine/control/startup_requests.py": (
        f"{_PLUGIN}/test_core.py {_PLUGIN}/test_startup_profile.py"
    ),
    "engine_image/outrider_engine/control/lookup.py": f"{_PLUGIN}/test_lookup.py {_PLUGIN}/test_core.py",
    "engine_image/outrider_engine/control/signature.py": f"{_PLUGIN}/test_signature.py",
    "engine_image/outrider_engine/control/probe.py": f"{_PLUGIN}/test_probe.py {_PLUGIN}/test_core.py",
}
"""By file: the arguments that pytest gets."""
