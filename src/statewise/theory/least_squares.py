"""Levenberg-Marquardt for large least-squares problems: each system is solved by conjugate gradients."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Parameters = tuple[Tensor, ...]


class LeastSquares(ABC):
    """A problem of the form: make all residuals r(theta) vanish."""

    @abstractmethod
    def residual(self, parameters: Parameters) -> Tensor:
        """Return the residuals."""

    @abstractmethod
    def linearise(
        self, parameters: Parameters
    ) -> tuple[Callable[[Parameters], Tensor], Callable[[Tensor], Parameters]]:
        """Return the products with the Jacobian J and with its transpose, at these parameters."""


@dataclass(frozen=True)
class Solution:
    """Where a solver ended.

    Args:
        parameters: the best found.
        cost: the mean square norm of their residuals.
        rounds: how many linear systems were solved.
        stopped: "converged", "stalled", "rounds" or "time".
    """

    parameters: Parameters
    cost: float
    rounds: int
    stopped: str


def solve_least_squares(
    problem: LeastSquares,
    parameters: Parameters,
    tolerance: float = 1e-26,
    rounds: int = 40,
    inner: int = 1_000,
    until: float = float("inf"),
    show: Callable[[int, float], None] | None = None,
) -> Solution:
    """Lower the sum of squares until it vanishes, stalls, or the budget ends.

    Args:
        problem: what is solved.
        parameters: where it begins, in float64.
        tolerance: of the mean square norm of a row of residuals.
        rounds: of linear systems.
        inner: conjugate-gradient steps for each.
        until: a moment of `time.monotonic` at which it ends.
        show: called with the round and the cost.
    """
    damping = 1e-2
    residual = problem.residual(parameters)
    cost, stopped, done = _mean_square(residual), "rounds", 0
    if cost < tolerance:
        return Solution(parameters, cost, 0, "converged")
    for done in range(1, rounds + 1):
        forward, backward = problem.linearise(parameters)
        right = tuple(-part for part in backward(residual))
        accepted, before = False, cost
        while not accepted and damping < 1e8:
            step = _conjugate_gradients(forward, backward, right, damping, inner, min(1e-3, math.sqrt(cost)))
            trial = tuple(p + s for p, s in zip(parameters, step, strict=True))
            found = problem.residual(trial)
            value = _mean_square(found)
            accepted = value < cost
            if accepted:
                parameters, residual, cost = trial, found, value
                damping = max(damping / 20, 1e-15)
            else:
                damping *= 10
            if time.monotonic() > until:
                break
        if show is not None:
            show(done, cost)
        if cost < tolerance:
            stopped = "converged"
            break
        if time.monotonic() > until:
            stopped = "time"
            break
        if not accepted or cost > 0.999 * before:
            stopped = "stalled"
            break
    return Solution(parameters, cost, done, stopped)


def _conjugate_gradients(
    forward: Callable[[Parameters], Tensor],
    backward: Callable[[Tensor], Parameters],
    right: Parameters,
    damping: float,
    steps: int,
    accuracy: float,
) -> Parameters:
    """Solve (J^T J + damping I) x = right, to a relative accuracy: far from the solution a rough step is as good."""
    x = tuple(torch.zeros_like(part) for part in right)
    rest, direction = right, right
    size = first = _dot(rest, rest)
    for _ in range(steps):
        image = tuple(part + damping * d for part, d in zip(backward(forward(direction)), direction, strict=True))
        curvature = _dot(direction, image)
        if not curvature > 0:
            break
        length = size / curvature
        x = _add(x, length, direction)
        rest = _add(rest, -length, image)
        smaller = _dot(rest, rest)
        if smaller < max(accuracy, 1e-12) ** 2 * first or smaller < 1e-40:
            break
        direction = _add(rest, smaller / size, direction)
        size = smaller
    return x


def _dot(a: Parameters, b: Parameters) -> float:
    return sum(float((p * q).sum()) for p, q in zip(a, b, strict=True))


def _add(a: Parameters, factor: float, b: Parameters) -> Parameters:
    return tuple(p + factor * q for p, q in zip(a, b, strict=True))


def _mean_square(residual: Tensor) -> float:
    return float(residual.square().sum()) / max(1, len(residual))
