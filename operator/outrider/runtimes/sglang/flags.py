"""The flags of SGLang, read from the source of every supported release."""

from __future__ import annotations

from outrider.runtimes.flag_table import FlagTable, Form
from outrider.runtimes.sglang import known_flags
from outrider_protocol.sglang_releases import parse_release

FLAGS = FlagTable(
    "SGLang",
    parse_release,
    {Form.PAIR: known_flags.PAIR, Form.SWITCH: known_flags.SWITCH, Form.VALUE: known_flags.VALUE},
    several=known_flags.SEVERAL,
)
