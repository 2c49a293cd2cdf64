"""What vLLM's parser takes: its flags by release, which of them are switches, and what is short for them.

The data is `outrider.runtimes.vllm.known_flags`, which ``make contract-flags`` reads from the parser of
every supported release.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from outrider.runtimes.vllm import known_flags
from outrider.runtimes.vllm.known_flags import PAIR, SWITCH, VALUE
from outrider_protocol.releases import NEWEST_VERSION, OLDEST_VERSION, Version, parse_version


class Form(StrEnum):
    """How a flag is written."""

    PAIR = "pair"
    """``--flag`` and ``--no-flag``."""
    SWITCH = "switch"
    """``--flag`` alone; without it the answer is no."""
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, and the releases that have it, both inclusive."""

    form: Form
    since: Version
    until: Version


def _flag(form: Form, span: str) -> Flag:
    """span: such as ``0.28-0.31``; an open end is left out."""
    since, _, until = span.partition("-")
    return Flag(
        form,
        parse_version(since) if since else OLDEST_VERSION,
        parse_version(until) if until else NEWEST_VERSION,
    )


def _pairs(text: str) -> dict[str, str]:
    return {short: meant for short, _, meant in (word.partition("=") for word in text.split())}


FLAGS: Mapping[str, Flag] = {
    name: _flag(form, span)
    for form, text in ((Form.PAIR, PAIR), (Form.SWITCH, SWITCH), (Form.VALUE, VALUE))
    for name, _, span in (word.partition(":") for word in text.split())
}
"""Name without dashes -> flag."""

SHORT: Mapping[str, str] = {**_pairs(known_flags.SHORT), "O": "optimization-level"}
"""Name behind a single dash -> the flag that it is short for."""

_OPPOSITES: Mapping[str, str] = _pairs(known_flags.OPPOSITES)
"""``disable-x`` -> ``enable-x`` and the reverse, where vLLM has both as one pair."""


def full_name(name: str) -> str:
    """The flag that a key of ``spec.engine.args`` means, without a JSON path: dashes, and not short."""
    head = name.partition(".")[0].replace("_", "-")
    return SHORT.get(head, head)


def dashed(name: str) -> str:
    """A key as vLLM's parser reads it: ``--max-num-seqs``, and ``-cc.level`` of a short one."""
    return f"-{name}" if name.partition(".")[0] in SHORT else f"--{name}"


def form_of(name: str) -> Form | None:
    """How a flag is written, shortened or not; None where no supported release has it."""
    meant = full_name(name)
    found = (
        [FLAGS[meant]] if meant in FLAGS else [row for long, row in FLAGS.items() if long.startswith(meant)]
    )
    forms = {row.form for row in found}
    return forms.pop() if len(forms) == 1 else None


def positive(name: str) -> str | None:
    """The flag whose "no" this is: ``async-scheduling`` of ``no-async-scheduling``; None of others."""
    meant = full_name(name)
    if meant in FLAGS:
        return None
    bare = meant.removeprefix("no-")
    return bare if bare != meant and form_of(bare) is Form.PAIR else _OPPOSITES.get(meant)


def known(name: str, version: str) -> bool:
    """Whether the parser of this release takes the key; it takes shortened flags, too."""
    meant = full_name(name)
    meant = positive(meant) or meant
    release = parse_version(version)
    return any(flag.since <= release <= flag.until for long, flag in FLAGS.items() if long.startswith(meant))


def nearest(name: str, version: str) -> str | None:
    """The flag of this release that is written most alike."""
    release = parse_version(version)
    names = [long for long, flag in FLAGS.items() if flag.since <= release <= flag.until]
    return next(iter(difflib.get_close_matches(full_name(name), names, n=1, cutoff=0.6)), None)
