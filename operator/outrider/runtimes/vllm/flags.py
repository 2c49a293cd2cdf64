"""The flags of vLLM. ``make contract-flags`` reads them from the parser of every supported release."""

from __future__ import annotations

from outrider.runtimes.flag_table import FlagTable, Form
from outrider.runtimes.vllm import known_flags
from outrider_protocol.releases import parse_version

_SEVERAL = """
api-key cudagraph-capture-sizes custom-histogram-buckets device-ids disable-access-log-for-endpoints
ignore-patterns kv-cache-dtype-skip-layers logits-processors lora-modules lora-target-modules middleware
numa-bind-cpus numa-bind-nodes served-model-name
"""
"""Source: ``nargs`` in vLLM's ``arg_utils.py`` and ``cli_args.py``."""

FLAGS = FlagTable(
    "vLLM",
    parse_version,
    {Form.PAIR: known_flags.PAIR, Form.SWITCH: known_flags.SWITCH, Form.VALUE: known_flags.VALUE},
    short=f"{known_flags.SHORT} O=optimization-level",
    opposites=known_flags.OPPOSITES,
    several=_SEVERAL,
    paths=True,
)
