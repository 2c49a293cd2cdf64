"""The configuration of SGLang's adaptive mode, which builds a state with its CUDA graphs for each K.

Source: ``AdaptiveSpeculativeParams`` of SGLang 0.5.23. A key is the smallest batch size of a slot. A batch
has the slot with the largest key that its size, rounded up to that of a CUDA graph, reaches.
"""

from __future__ import annotations

import json

from outrider.api.spec import Spec
from outrider_protocol.schedule import Schedule

FILE = "/tmp/outrider-adaptive.json"
"""Where the container writes the configuration before SGLang starts."""
VARIABLE = "OUTRIDER_SGLANG_ADAPTIVE"
"""The configuration as text. The command writes it into `FILE`, because SGLang reads a file alone."""
SHELL = (
    "sh",
    "-c",
    f'printf %s "${VARIABLE}" > {FILE} && exec python3 -m sglang.launch_server "$@"',
    "sglang",
)
"""SGLang takes the place of the shell, and so gets the signals of the pod."""


def configuration(spec: Spec, table: Schedule | None) -> str | None:
    """The JSON text; None where an engine keeps one K.

    table: the schedule that the engine keeps; None where the plugin can change it. A slot of one candidate
    never changes its K, so that SGLang follows the table.
    """
    if not spec.live or spec.one_k:
        return None
    if table is None:
        return _json({"1": {"candidate_steps": list(spec.candidates())}})
    slots: dict[str, dict[str, list[int]]] = {}
    first = 1
    for row in table.merged().rows:
        slots[str(first)] = {"candidate_steps": [row.num_speculative_tokens]}
        first = (row.max_batch_size or 0) + 1
    return _json(slots)


def _json(slots: dict[str, dict[str, list[int]]]) -> str:
    return json.dumps(slots, separators=(",", ":"))
