"""Products of machines."""

import numpy as np

from statewise.errors import MachineError, TooLargeError
from statewise.machines.machine import MAX_ENTRIES, Machine


def direct_product(a: Machine, b: Machine) -> Machine:
    """Return the machine that runs two machines on pairs of symbols; the output is the pair of outputs.

    The word problem of Z4 x Z6 is the direct product of those of Z4 and Z6: symbol (1, 5) adds 1 on the left and 5 on
    the right.
    """
    if a.delta.size * b.delta.size > MAX_ENTRIES:
        raise TooLargeError(
            f"the product of {a!r} and {b!r} has {a.delta.size * b.delta.size:,} entries; "
            f"at most {MAX_ENTRIES:,} are handled; give its factors fewer symbols"
        )
    delta = a.delta[:, None, :, None] * b.states + b.delta[None, :, None, :]
    return _paired(a, b, delta.reshape(a.states * b.states, -1), _pairs(a.alphabet, b.alphabet), f"{a.name}*{b.name}")


def shared_product(a: Machine, b: Machine) -> Machine:
    """Return the machine that runs two machines on the same word; the output is the pair of outputs."""
    if set(a.alphabet) != set(b.alphabet):
        raise MachineError("a shared product needs two machines over the same symbols; use direct_product for pairs")
    if a.delta.size * b.states > MAX_ENTRIES:
        raise TooLargeError(f"the shared product has more than {MAX_ENTRIES:,} entries; minimise its factors first")
    order = [b.alphabet.index(name) for name in a.alphabet]
    delta = a.delta[:, None, :] * b.states + b.delta[None, :, order]
    return _paired(a, b, delta.reshape(a.states * b.states, -1), a.alphabet, f"{a.name}&{b.name}")


def _paired(a: Machine, b: Machine, delta: np.ndarray, alphabet: tuple[str, ...], name: str) -> Machine:
    return Machine(
        delta,
        start=a.start * b.states + b.start,
        outputs=(a.outputs[:, None] * b.classes + b.outputs[None, :]).ravel(),
        alphabet=alphabet,
        output_names=_pairs(a.output_names, b.output_names),
        state_names=_pairs(a.state_names, b.state_names),
        name=name,
    )


def _pairs(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"({x}, {y})" for x in left for y in right)
