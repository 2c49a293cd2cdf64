"""Muon: momentum, orthogonalised. Learns from far fewer tokens than Adam, which is what a CPU has.

torch ships one that iterates in bfloat16; without hardware for it that doubles a step here.
Source: K. Jordan, "Muon: an optimizer for hidden layers in neural networks" (2024).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic Newton-Schulz iteration; five rounds bring singular values near one."""
MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):
    """For matrices only. ``lr`` is on Adam's scale: an update has a root mean square of 0.2 lr."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                momentum = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                update = orthogonal(matrix.grad.lerp(momentum, MOMENTUM))
                matrix.add_(update, alpha=-0.2 * group["lr"] * max(matrix.shape) ** 0.5)


def orthogonal(matrix: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """The nearest (semi-)orthogonal matrix, roughly."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x
