"""The flags of vLLM. ``make contract-flags`` reads them from the parser of every supported release."""

from __future__ import annotations

from outrider.runtimes.flag_table import FlagTable, Form
from outrider.runtimes.vllm import flag_words, known_flags
from outrider_protocol.releases import parse_version

_APPENDED = frozenset(flag_words.APPENDED.split())


def _values(*, appended: bool) -> str:
    """The flags with values, with their releases: repeated ones, or the others."""
    words = known_flags.VALUE.split()
    return " ".join(word for word in words if (word.partition(":")[0] in _APPENDED) is appended)


FLAGS = FlagTable(
    "vLLM",
    parse_version,
    {
        Form.PAIR: known_flags.PAIR,
        Form.SWITCH: known_flags.SWITCH,
        Form.VALUE: _values(appended=False),
        Form.APPEND: _values(appended=True),
    },
    short=f"{known_flags.SHORT} O=optimization-level",
    opposites=known_flags.OPPOSITES,
    several=flag_words.SEVERAL,
    paths=True,
)
