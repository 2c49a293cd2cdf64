"""The kinds of inference engines at admission: one module each, named for its kind in small letters.

`outrider.runtimes` has what an engine does.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module

from outrider.api.engines.admission import Admission, Feature


class RuntimeKind(StrEnum):
    """The kinds of inference engines; `outrider.runtimes` has the registry of them."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


DEFAULT_KIND = RuntimeKind.VLLM

ADMISSIONS: dict[RuntimeKind, Admission] = {
    kind: import_module(f"outrider.api.engines.{kind.lower()}").ADMISSION for kind in RuntimeKind
}
"""What admission knows of each; a module of this folder has it as `ADMISSION`."""


def having(feature: Feature) -> list[str]:
    """The kinds with a feature, as CEL lists them."""
    return [str(kind) for kind, admission in ADMISSIONS.items() if feature in admission.features]
