"""What the status says of an engine that ended, by what Kubernetes kept of its container. Pure.

Each function takes the pod and the time, as the checks of `readiness` do. It returns a message without its
end, or None where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from outrider.api.reasons import DegradedReason
from outrider.api.text import shortened
from outrider.cluster.objects import Pod, Terminated, launch_failure
from outrider.plan.names import CONTAINER
from outrider.runtimes import missing_model, remedy

CRASHES = 2
"""Number of restarts from which a container that is not ready counts as crashing."""

USAGE_ERROR = 2
"""Exit code of a program that refuses its flags; a restart does not help."""

_MAX_CAUSE = 150
"""Characters of a cause that has a remedy behind it."""


def model_not_found(pod: Pod, _: datetime) -> str | None:
    """The path at which it found no model."""
    end = _last_end(pod)
    if end is None:
        return None
    failure = launch_failure(end)
    if failure is not None:
        return failure[1] if failure[0] == DegradedReason.MODEL_NOT_FOUND else None
    path = missing_model(end.message)
    return None if path is None else f"the engine found no model at {path}."


def refused_by_launcher(reason: DegradedReason) -> Callable[[Pod, datetime], str | None]:
    """Return what the launcher said where it ended for this reason."""

    def look(pod: Pod, _: datetime) -> str | None:
        failure = launch_failure(_last_end(pod))
        return failure[1] if failure and failure[0] == reason else None

    return look


def engine_crashing(pod: Pod, _: datetime) -> str | None:
    """How often it ended, and why."""
    engine, end = pod.container(CONTAINER), _last_end(pod)
    if engine is None or end is None:
        return None
    if end.exit_code == USAGE_ERROR:
        return f"the engine refuses one of its flags, exit code {last_words(end)}"
    if engine.restart_count < CRASHES:
        return None
    return f"the engine ended {engine.restart_count} times, last with exit code {last_words(end)}"


def group_ended(pod: Pod, _: datetime) -> str | None:
    """Why it restarted, and its group with it."""
    engine, end = pod.container(CONTAINER), _last_end(pod)
    if engine is None or end is None or engine.restart_count == 0:
        return None
    return f"the engine ended its group, with exit code {last_words(end)}"


def last_words(end: Terminated) -> str:
    """Exit code, Kubernetes' reason, the cause in the engine's words, and what to change if that is known."""
    said = _cause(end.message)
    code = f"{end.exit_code} ({end.reason})" if end.reason not in ("", "Error") else f"{end.exit_code}"
    change = remedy(said)
    if change is not None:
        return f"{code}: {shortened(said, _MAX_CAUSE).rstrip('. ')}. {change}."
    return f"{code}: {said}" if said else code


_REFUSED, _DETAILS = "Value error, ", " [type="
_MANUAL = "For further information visit https://errors.pydantic.dev/"
"""pydantic ends each error with it, below the cause."""


def _cause(message: str) -> str:
    """The line of a termination message that names the cause: the last one, or the one that pydantic has."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[-1].startswith(_MANUAL):
        for line in reversed(lines):
            if line.startswith(_REFUSED):
                return line.removeprefix(_REFUSED).partition(_DETAILS)[0]
    return lines[-1] if lines else ""


def _last_end(pod: Pod) -> Terminated | None:
    engine = pod.container(CONTAINER)
    return None if engine is None else engine.last_end
