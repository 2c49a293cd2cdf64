"""Transcripts on the pages, and the commands in them."""

from __future__ import annotations

import re

from tests.unit.docs.pages import PLACES, blocks

_TRIAL = "twin -n trial --url http://127.0.0.1:46739"
_CLIENT = "--guidellm 'python tests/cluster/guidellm_stand_in.py'"
BENCH = (
    f"outrider bench {_TRIAL} --seconds 5 --rounds 4 --k 3 --price-per-hour 2.40 {_CLIENT} "
    "--yes --save bench.json --report bench.html"
)
_SWEPT = "--streams 1,8 --k 0 --k 3 --seconds 3 --rounds 2"
SWEEP = f"outrider sweep {_TRIAL} {_SWEPT} {_CLIENT} --yes --save twin.json"
VERIFY = "outrider verify checked -n default --yes --no-structured --tokens 32 --samples 100"
LEFT_OUT = "…"
PROMPT = re.compile(r"^\$ ((?:outrider|kubectl) .+)$")


def transcripts() -> list[tuple[str, str, str]]:
    """Page, command and what it printed."""
    found = []
    for place in PLACES:
        for block in blocks(place):
            for line in block.lines:
                typed = PROMPT.match(line)
                if typed:
                    found.append((place, typed[1], ""))
                elif found and block.lines[0].startswith("$ "):
                    page, command, said = found[-1]
                    found[-1] = page, command, f"{said}{line}\n"
    return found


TRANSCRIPTS = transcripts()


def of(command: str) -> list[str]:
    return [said for _, typed, said in TRANSCRIPTS if typed == command]


def parts(said: str) -> list[str]:
    """What stands between lines that say that something is left out."""
    return [part for part in re.split(rf"^{LEFT_OUT}\n", said, flags=re.M) if part]
