"""A tracker as matrices: what proofs, searches, extraction and snapping read."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from statewise.errors import NetworkError
from statewise.models.interface import AdaptedModel
from statewise.models.tracker import StateTracker
from statewise.recurrence import token_table
from statewise.theory.balls import TINY, UNIT, Balls
from statewise.theory.dyadic import Dyadic, exponential
from statewise.transitions import CP, Block, Diagonal, Full, LinearTransition, Positive, Rotation
from statewise.transitions.transition import tabulate

# levels whose matrices are known from their weights, without a call of `dense`
_OWN = (Full, Block, Diagonal, CP, Rotation, Positive)
# products of three such numbers stay in the range of float64
_LARGEST = 1e100
# exp of larger logarithms leaves the range of numbers whose products are formed
_LARGEST_LOG = 100.0
# the least positive float
_LEAST = 2.0**-1074
_NOT_FINITE = "the network has weights that are not finite; train it again, or use another run"
# bits of a cosine or an exponential that is then rounded to 53
_BITS = 128


@dataclass(frozen=True, eq=False)
class Scaled:
    """A network in float64, each matrix and vector divided by a power of two, and how far each number may be off.

    The largest entry of each lies between 1/2 and 1. What is off is the rounding of matrices that are computed from
    several weights, and what vanishes beside a largest entry that is 2^1000 times as large.

    Args:
        matrices: A[a], times a positive number.
        initial: h_0, times a positive number.
        readout: U, times a positive number.
        gains: the logarithms to the base 2 of what matrices were divided by; 0 where that is not known.
    """

    matrices: Balls
    initial: Balls
    readout: Balls
    gains: Float[np.ndarray, " symbol"]


@dataclass(frozen=True, eq=False)
class Network:
    """The function h_t = A[a_t] h_{t-1}, whose answer is the class with a logit (U h_t)_c larger than all others.

    Stored weights are read as the rationals that they are, and matrices as what follows from them in real numbers.
    Multiplying a matrix or a state by a positive number changes no answer, so hidden normalisation plays no part. Two
    equal largest logits are no answer.

    `matrices` are floats. Where nothing else is given, they are what is judged. Otherwise they are near to it: use
    `integers`, `dyadics` or `scaled` for proofs.

    Args:
        matrices: A[a] for each symbol a, or a positive multiple.
        initial: h_0.
        readout: U.
        exact: computes the matrices without rounding, where they are sums of products of stored weights.
        angles: of rotations, the angle of each plane.
        logs: of a positive diagonal, the logarithms of its entries.
        reading: what the matrices are, in words.
    """

    matrices: Float[np.ndarray, "symbol out in"]
    initial: Float[np.ndarray, " hidden"]
    readout: Float[np.ndarray, "classes hidden"]
    exact: Callable[[], tuple[Dyadic, ...]] | None = None
    angles: Dyadic | None = None
    logs: Dyadic | None = None
    reading: str = "the weights as stored, as rational numbers"

    def __post_init__(self) -> None:
        parts = (self.matrices, self.initial, self.readout)
        if not all(np.isfinite(part).all() for part in parts):
            raise NetworkError(_NOT_FINITE)
        if not (np.full(1, _LEAST) * 1.0).all():
            raise NetworkError(
                "this process takes numbers below 2^-1022 for 0, so weights cannot be read as they are; "
                "call torch.set_flush_denormal(False)"
            )
        largest = max(float(np.abs(part).max()) for part in parts)
        if largest > _LARGEST:
            raise NetworkError(f"the network has a weight of size {largest:.0e}; expected at most {_LARGEST:.0e}")

    @property
    def symbols(self) -> int:
        """The number of symbols."""
        return len(self.matrices)

    @property
    def hidden(self) -> int:
        """The hidden size."""
        return len(self.initial)

    @property
    def classes(self) -> int:
        """The number of output classes."""
        return len(self.readout)

    @cached_property
    def dyadics(self) -> tuple[Dyadic, ...] | None:
        """The matrices without rounding; None where they are not rational."""
        if self.exact is not None:
            return self.exact()
        if self.angles is None and self.logs is None:
            return tuple(Dyadic.of(matrix) for matrix in self.matrices)
        if self.scaled.matrices.off.any():
            return None
        # all angles are 0, or the logarithms of each symbol are one number
        return tuple(Dyadic.of(matrix) for matrix in self.scaled.matrices.mid)

    @cached_property
    def integers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Matrices, initial state and readout as Python integers, each times a positive number; None as `dyadics`."""
        if self.dyadics is None:
            return None
        matrices = np.stack([matrix.primitive() for matrix in self.dyadics])
        return matrices, Dyadic.of(self.initial).primitive(), Dyadic.of(self.readout).primitive()

    @cached_property
    def scaled(self) -> Scaled:
        """The network in float64, with bounds."""
        if self.angles is not None:
            matrices, gains = _turned(self.angles), np.zeros(self.symbols)
        elif self.logs is not None:
            matrices, gains = _decayed(self.logs), np.zeros(self.symbols)
        else:
            each = self.matrices if self.exact is None else self.dyadics
            assert each is not None
            parts = [_without_power(matrix) for matrix in each]
            matrices = Balls(np.stack([part.mid for part, _ in parts]), np.stack([part.off for part, _ in parts]))
            gains = np.array([float(gain) for _, gain in parts])
        return Scaled(matrices, _without_power(self.initial)[0], _without_power(self.readout)[0], gains)

    def states(self, sequences: Int[np.ndarray, "sequence time"]) -> Float[np.ndarray, "sequence hidden"]:
        """Return the final hidden states of sequences of one length, with norm 1."""
        h = np.broadcast_to(self.initial, (len(sequences), self.hidden))
        _, powers = np.frexp(np.abs(self.matrices).max(axis=(1, 2), keepdims=True))
        matrices = np.ldexp(self.matrices, -powers)
        for t in range(sequences.shape[1]):
            h = np.einsum("bij,bj->bi", matrices[sequences[:, t]], h)
            # a power of two first, so that squares do not vanish
            h = np.ldexp(h, -np.frexp(np.abs(h).max(axis=1, keepdims=True))[1])
            h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return h

    def answers(self, sequences: Int[np.ndarray, "sequence time"]) -> Int[np.ndarray, " sequence"]:
        """Return the classes of the largest logits after sequences of one length."""
        return (self.states(sequences) @ self.readout.T).argmax(axis=1)


def _without_power(values: np.ndarray | Dyadic) -> tuple[Balls, int]:
    """Divide numbers by the least power of two above all of them; return them as floats, and its exponent."""
    if isinstance(values, Dyadic):
        bits = max(1, int(abs(values.whole).max()).bit_length())
        # a quotient of two integers is the nearest float, also where it all but vanishes
        mid = np.array([value / (1 << bits) for value in values.whole.ravel().tolist()])
        off = np.where(values.whole.ravel() != 0, UNIT * np.abs(mid) + TINY, 0.0)
        return Balls(mid.reshape(values.shape), off.reshape(values.shape)), values.power + bits
    _, power = np.frexp(np.abs(values).max())
    mid = np.ldexp(values, -power)
    return Balls(mid, np.where(np.ldexp(mid, power) == values, 0.0, TINY)), int(power)


def _turned(angles: Dyadic) -> Balls:
    """Return the rotations by these angles, as matrices."""
    symbols, planes = angles.shape
    mid, off = np.zeros((2, symbols, 2 * planes, 2 * planes))
    scale = Fraction(2) ** angles.power
    for (a, plane), angle in np.ndenumerate(angles.whole):
        cos, sin, units = exponential(angle * scale, _BITS, turn=True)
        i = 2 * plane
        for place, value in {(i, i): cos, (i, i + 1): -sin, (i + 1, i): sin, (i + 1, i + 1): cos}.items():
            mid[a, *place], off[a, *place] = _rounded(value, units)
    return Balls(mid, off)


def _decayed(logs: Dyadic) -> Balls:
    """Return the diagonals with these logarithms, each divided by its largest entry, as matrices."""
    symbols, hidden = logs.shape
    mid, off = np.zeros((2, symbols, hidden, hidden))
    scale = Fraction(2) ** logs.power
    largest = logs.whole.max(axis=1)
    for (a, i), log in np.ndenumerate(logs.whole):
        value, _, units = exponential((log - largest[a]) * scale, _BITS)
        mid[a, i, i], off[a, i, i] = _rounded(value, units)
    return Balls(mid, off)


def _rounded(value: int, units: int) -> tuple[float, float]:
    """Return a number of units 2^-bits as a float, and how far that may be off."""
    nearest = value / (1 << _BITS)
    return nearest, UNIT * abs(nearest) + (units + 1) * 2.0**-_BITS if units else 0.0


def network_of(model: Any) -> Network:
    """Read a trained or compiled tracker; a model whose state is no product of matrices is refused."""
    if not isinstance(model, StateTracker):
        name = type(model.module if isinstance(model, AdaptedModel) else model).__name__
        raise NetworkError(f"{name} is not bilinear: its state is no product of matrices; give a level such as full")
    if not isinstance(model.transition, LinearTransition):
        raise NetworkError(
            "the network is not linear in its hidden state (it has an additive term), so that is no product of "
            "matrices; train it with additive none, or evaluate its scores instead"
        )
    if not all(bool(weights.isfinite().all()) for weights in model.parameters()):
        raise NetworkError(_NOT_FINITE)
    # in float64, so that computed matrices are accurate to 53 bits
    transition = copy.deepcopy(model.transition).double()
    with torch.no_grad():
        embeddings = None if model.embeddings is None else model.embeddings.double()
        table = token_table(transition, embeddings)
        if isinstance(transition, Positive):
            # a common factor of a row changes no answer, but may be out of range
            largest = table.amax(dim=1, keepdim=True)
            table = table - torch.where(largest.abs() > _LARGEST_LOG, largest, 0.0)
        matrices = transition.dense(table)
        if type(transition) not in _OWN:
            _check_dense(transition, table, matrices)
        initial, readout = (part.detach().double().numpy() for part in (model.initial_state, model.readout))
        return Network(matrices.detach().double().numpy(), initial, readout, **_sources(transition, embeddings))


def _sources(transition: LinearTransition, embeddings: torch.Tensor | None) -> dict[str, Any]:
    """Return what a network's matrices are computed from, where they are not stored weights themselves."""
    if type(transition) not in _OWN:
        return {"reading": f"the matrices that {type(transition).__name__} computes in float64, as rational numbers"}
    inputs = None if embeddings is None else Dyadic.of(embeddings.numpy())
    if isinstance(transition, Rotation | Positive):
        weight = Dyadic.of(transition.weight.detach().numpy().T)
        table = weight if inputs is None else inputs @ weight
        if isinstance(transition, Rotation):
            return {"angles": table, "reading": "the angles as stored, their cosines and sines as real numbers"}
        return {"logs": table, "reading": "the logarithms as stored, their exponentials as real numbers"}
    if isinstance(transition, CP):
        factors = [part.detach().numpy().copy() for part in (transition.left, transition.gate, transition.right)]
        return {"exact": partial(_of_factors, *factors, inputs)}
    if inputs is None:
        return {}
    return {"exact": partial(_of_inputs, tabulate(transition).permute(2, 0, 1).numpy().copy(), inputs)}


def _of_factors(left: np.ndarray, gate: np.ndarray, right: np.ndarray, inputs: Dyadic | None) -> tuple[Dyadic, ...]:
    """Multiply out A[a] = W1 diag(gates[a]) W2^T without rounding."""
    table = Dyadic.of(gate)
    gates = table if inputs is None else inputs @ table
    first, last = Dyadic.of(left), Dyadic.of(right).T
    return tuple((first * gates[a]) @ last for a in range(len(gates.whole)))


def _of_inputs(weights: np.ndarray, inputs: Dyadic) -> tuple[Dyadic, ...]:
    """Sum A[a] = sum_k x[a, k] W_k without rounding."""
    size, hidden, _ = weights.shape
    made = inputs @ Dyadic.of(weights.reshape(size, -1))
    return tuple(made[a].reshape(hidden, hidden) for a in range(len(inputs.whole)))


def _check_dense(transition: LinearTransition, table: torch.Tensor, matrices: torch.Tensor) -> None:
    """Refuse a level whose dense matrices are not what acts on a state: a proof about them would be about nothing."""
    generator = torch.Generator().manual_seed(0)
    for scale in (1.0, 1e3):
        h = scale * torch.randn(len(matrices), matrices.shape[-1], dtype=matrices.dtype, generator=generator)
        acted, expected = transition.act(table, h), (matrices @ h.unsqueeze(-1)).squeeze(-1)
        if not torch.allclose(acted, expected, rtol=1e-6, atol=1e-9 * float(expected.abs().max())):
            raise NetworkError(
                f"act and dense of {type(transition).__name__} disagree, so nothing can be proved of it; "
                "make act(c, h) equal dense(c) @ h"
            )
