"""A plugin for vLLM, for tests: writes down every forward pass of the drafter, for any request.

Independent of what Outrider's plugin counts. See `helper_plugins`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

NAME = "drafter_witness"
VARIABLE = "DRAFTER_WITNESS_FILE"
FILE = "drafter-passes"
"""Beside the log of its engine."""


def register() -> None:
    """Have each drafter model report its passes from when it is loaded, on the runner of this process."""
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
        from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator

        report_passes(DraftModelSpeculator)
    else:
        from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

        report_passes(SpecDecodeBaseProposer)


def report_passes(drafter: Any) -> None:
    """Have each model that this class loads write its passes down."""
    load = drafter.load_model

    def loaded(self: Any, *args: Any, **kwargs: Any) -> None:
        load(self, *args, **kwargs)
        self.model.register_forward_pre_hook(note_begin, with_kwargs=True)
        self.model.register_forward_hook(note_end, with_kwargs=True)

    drafter.load_model = loaded


def note_begin(model: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001  the signature is torch's
    """One line per pass: the number of its tokens."""
    _note(Path(os.environ[VARIABLE]), kwargs)


def note_end(model: Any, args: Any, kwargs: Any, output: Any) -> None:  # noqa: ARG001
    """One line per pass that came to its end."""
    _note(_of_ends(Path(os.environ[VARIABLE])), kwargs)


def _note(path: Path, kwargs: Any) -> None:
    with path.open("a") as file:
        file.write(f"{len(kwargs['positions'])}\n")


def _of_ends(file: Path) -> Path:
    return file.with_suffix(".ends")


def passes(file: Path) -> list[int]:
    """The tokens of every pass so far."""
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def ended_early(file: Path) -> list[int]:
    """The tokens of those that never came to their end, in no order."""
    return list((Counter(passes(file)) - Counter(passes(_of_ends(file)))).elements())
