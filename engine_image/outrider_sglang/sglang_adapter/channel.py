"""The channel of the verbs: the control request of SGLang's debugging tool, with a method of our own.

Source: SGLang 0.5.23, `sglang.srt.managers.io_struct.DumperControlReqInput`. It carries a dictionary to the
schedulers, and dictionaries back. SGLang sends it to each data-parallel rank. Like every request, it reaches
the scheduler between two rounds. Its HTTP route exists only where `is_route_open`.
"""

from __future__ import annotations

import logging
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.verbs import LONGEST_STEP_SECONDS, MEASUREMENT, STATE, answer
from outrider_protocol.control_api import Reason, Refusal
from outrider_sglang.sglang_adapter.launch_facts import OPEN_ROUTE_VARIABLE, is_route_open

logger = logging.getLogger("sglang.outrider")

METHOD = "outrider"
VERB, PAYLOAD = "verb", "payload"
_READING = frozenset(verb.name for verb in (STATE, MEASUREMENT, LONGEST_STEP_SECONDS))


def is_ours(request: Any) -> bool:
    """Whether a control request carries a verb."""
    return bool(request.method == METHOD)


def run_verb(control: EngineCoreControl | None, why_none: str, scheduler: Any, request: Any) -> None:
    """Run the verb of a request, and send its answer. Every request gets one, since its sender waits."""
    from sglang.srt.managers.io_struct import DumperControlReqOutput

    try:
        packed = _run(control, why_none, request.body)
        output = DumperControlReqOutput(success=True, response=[packed])
    except Exception as error:
        logger.exception("outrider: a request of the control API failed in the scheduler")
        fault = f"{type(error).__name__}: {error}"
        output = DumperControlReqOutput(success=False, response=[], error=fault)
    scheduler.ipc_channels.send_to_tokenizer.send_output(output, request)


def _run(control: EngineCoreControl | None, why_none: str, body: dict[str, Any]) -> dict[str, object]:
    verb = str(body[VERB])
    if is_route_open() and verb not in _READING:
        why = f"{OPEN_ROUTE_VARIABLE}=reuse lets unsigned requests through. To tune, remove the variable"
        return {"error": Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, why).to_wire()}
    return answer(control, why_none, verb, body[PAYLOAD])
