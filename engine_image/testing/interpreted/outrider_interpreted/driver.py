"""The device of the backend: the CPU, while Triton interprets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from outrider_interpreted.compiler import TARGET

INTERPRET_VARIABLE = "TRITON_INTERPRET"
_WARP_SIZE = 32
"""Kernels choose block sizes by it. The interpreter has no warps."""


class InterpretedDriver(DriverBase):  # type: ignore[misc]
    """One device without streams, active only while Triton interprets."""

    @classmethod
    def is_active(cls) -> bool:
        """Return True if kernels are interpreted, so that nothing would be compiled."""
        return os.environ.get(INTERPRET_VARIABLE) == "1"

    def map_python_to_cpp_type(self, ty: str) -> NoReturn:
        """Refuse: C++ types are for compiled launchers.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"no C++ type for {ty}: this backend compiles no kernel")

    def get_current_target(self) -> GPUTarget:
        """The target that vLLM and kernels compare with names of GPUs."""
        return GPUTarget(TARGET, 0, _WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        """Where tensors are."""
        import torch

        return torch.device(TARGET)

    def get_benchmarker(self) -> Callable[..., NoReturn]:
        """A benchmark that refuses: times of interpreted kernels choose nothing."""

        def refuse(*args: object, **kwargs: object) -> NoReturn:
            raise NotImplementedError("interpreted kernels are not timed")

        return refuse

    def get_current_device(self) -> int:
        """Number of the only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Nothing, because there is one device."""

    def get_current_stream(self, device: int = 0) -> int:  # noqa: ARG002  the signature is Triton's
        """Number of the only stream."""
        return 0

    def get_device_interface(self) -> Any:
        """PyTorch's module for the device."""
        import torch

        return torch.cpu
