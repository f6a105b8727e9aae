"""Levenberg-Marquardt for large least-squares problems: each system is solved by preconditioned conjugate gradients."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.stages import say
from statewise.wording import duration

Parameters = tuple[Tensor, ...]
# called after each round with its number and the residual
Show = Callable[[int, float], None]
# a step is taken if it lowers the cost by this share of what the linear model promises
_LEAST_GAIN = 1e-3
# damping at first, at the least, and where a problem is given up
_FIRST, _LEAST, _MOST = 1e-3, 1e-14, 1e8
# near the end each round squares the cost; one that does not halve it is the last
_STALLED = 0.5


@dataclass(frozen=True)
class Metric:
    """A positive form on parameters that resembles J^T J, and its inverse: it damps steps and preconditions systems."""

    apply: Callable[[Parameters], Parameters]
    invert: Callable[[Parameters], Parameters]


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

    def metric(self, parameters: Parameters) -> Metric:
        """Return a form that resembles J^T J at these parameters; the plain one is always allowed."""
        return Metric(lambda value: value, lambda value: value)


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


def _round(done: int, cost: float, until: float) -> str:
    left = until - time.monotonic()
    limit = f", at most {duration(max(0.0, left))} more" if math.isfinite(left) else ""
    return f"round {done}: residual {cost:.1e}{limit}"


def solve_least_squares(
    problem: LeastSquares,
    parameters: Parameters,
    tolerance: float = 1e-29,
    rounds: int = 40,
    inner: int = 1_000,
    until: float = float("inf"),
    show: Show | None = None,
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
    damping = _FIRST
    residual = problem.residual(parameters)
    cost, stopped, done = mean_square(residual), "rounds", 0
    if cost < tolerance:
        return Solution(parameters, cost, 0, "converged")
    for done in range(1, rounds + 1):
        forward, backward = problem.linearise(parameters)
        metric = problem.metric(parameters)
        right = tuple(-part for part in backward(residual))
        accepted, before = False, cost
        while not accepted and damping < _MOST and time.monotonic() < until:
            accuracy = max(1e-11, min(0.05, math.sqrt(cost)))
            step = _conjugate_gradients(forward, backward, right, metric, damping, inner, accuracy, until)
            trial = _add(parameters, 1.0, step)
            found = problem.residual(trial)
            value = mean_square(found)
            promised = cost - mean_square(residual + forward(step))
            gain = (cost - value) / max(promised, 1e-300)
            accepted = value < cost and gain > _LEAST_GAIN
            if accepted:
                parameters, residual, cost = trial, found, value
                damping = max(_LEAST, damping * (0.05 if gain > 0.75 else 0.3 if gain > 0.25 else 2.0))
            else:
                damping *= 8
        say("solving", detail=_round(done, cost, until))
        if show is not None:
            show(done, cost)
        if cost < tolerance:
            stopped = "converged"
            break
        if time.monotonic() >= until:
            stopped = "time"
            break
        if not accepted or (cost < 1e-20 and cost > _STALLED * before) or cost > 0.9999 * before:
            stopped = "stalled"
            break
    return Solution(parameters, cost, done, stopped)


def _conjugate_gradients(
    forward: Callable[[Parameters], Tensor],
    backward: Callable[[Tensor], Parameters],
    right: Parameters,
    metric: Metric,
    damping: float,
    steps: int,
    accuracy: float,
    until: float,
) -> Parameters:
    """Solve (J^T J + damping M) x = right, to a relative accuracy: far from the solution a rough step is as good."""
    x = tuple(torch.zeros_like(part) for part in right)
    rest, direction = right, metric.invert(right)
    size = first = _dot(rest, direction)
    for _ in range(steps):
        image = _add(backward(forward(direction)), damping, metric.apply(direction))
        curvature = _dot(direction, image)
        if not curvature > 0:
            break
        x = _add(x, size / curvature, direction)
        rest = _add(rest, -size / curvature, image)
        turned = metric.invert(rest)
        smaller = _dot(rest, turned)
        if not smaller > accuracy**2 * first or time.monotonic() >= until:
            break
        direction = _add(turned, smaller / size, direction)
        size = smaller
    return x


def _dot(a: Parameters, b: Parameters) -> float:
    return sum(float((p * q).sum()) for p, q in zip(a, b, strict=True))


def _add(a: Parameters, factor: float, b: Parameters) -> Parameters:
    return tuple(p + factor * q for p, q in zip(a, b, strict=True))


def lifted(form: Tensor, share: float) -> Tensor:
    """Add a share of the mean of a form's diagonal to the diagonal, so that it has an inverse."""
    mean = form.diagonal(dim1=-2, dim2=-1).mean(dim=-1).clamp(min=1e-12)
    return form + share * mean[..., None, None] * torch.eye(form.shape[-1], dtype=form.dtype)


def mean_square(residual: Float[Tensor, "row entry"]) -> float:
    """Return the mean square norm of a row."""
    return float(residual.square().sum()) / max(1, len(residual))
