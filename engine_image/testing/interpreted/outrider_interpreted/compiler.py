"""The compiler of the backend. Triton's interpreter never asks for compiled code."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from triton.backends.compiler import BaseBackend, GPUTarget

TARGET = "cpu"


class InterpretedBackend(BaseBackend):  # type: ignore[misc]
    """Refuses to compile: a kernel that gets here was not decorated under `TRITON_INTERPRET=1`."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return True for the target that this package's driver reports."""
        return bool(target.backend == TARGET)

    def hash(self) -> str:
        """The part of cache keys that stands for this compiler."""
        return "outrider-interpreted"

    def parse_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a launch as they are; the interpreter reads none."""
        return options

    def add_stages(self, stages: dict[str, Any], options: object) -> NoReturn:
        """Refuse to compile.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("this backend compiles no kernel; set TRITON_INTERPRET=1 before the start")

    def load_dialects(self, context: object) -> None:
        """Load nothing, because nothing is compiled."""

    def get_module_map(self) -> dict[str, ModuleType]:
        """No device-specific modules."""
        return {}
