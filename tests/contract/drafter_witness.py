"""A plugin for vLLM, for tests: writes down every forward pass of the drafter, whoever asked for it.

Independent of what Outrider's plugin counts. See `helper_plugins`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

NAME = "drafter_witness"
VARIABLE = "DRAFTER_WITNESS_FILE"
FILE = "drafter-passes"
"""Beside the log of its engine."""


def register() -> None:
    """Have each drafter model report its passes from when it is loaded."""
    from vllm.v1.spec_decode.draft_model import DraftModelProposer

    load = DraftModelProposer._get_model

    def loaded(self: Any) -> Any:
        model = load(self)
        model.register_forward_pre_hook(note, with_kwargs=True)
        return model

    DraftModelProposer._get_model = loaded


def note(model: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001  the signature is torch's
    """One line per pass: the number of its tokens."""
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(f"{len(kwargs['positions'])}\n")


def passes(file: Path) -> list[int]:
    """The tokens of every pass so far."""
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []
