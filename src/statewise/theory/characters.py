"""Characters of Abelian groups: the angles by which a network of rotations tracks one."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from statewise.errors import CompileError
from statewise.machines import Machine
from statewise.theory.quotients import CyclicQuotient, cyclic_quotients

_MAX_CHARACTERS = 1_024


@dataclass(frozen=True, eq=False)
class Characters:
    """Characters of an Abelian group: phases in whole numbers, `parts` of which are a full turn."""

    parts: int
    by_symbol: Int[np.ndarray, "symbol character"]
    by_state: Int[np.ndarray, "state character"]

    def angles(self, phases: np.ndarray) -> np.ndarray:
        """Return phases as angles in (-pi, pi]."""
        return 2 * np.pi * np.where(2 * phases > self.parts, phases - self.parts, phases) / self.parts

    def coordinates(self) -> Float[np.ndarray, "state entry"]:
        """Return the cosines and sines of each state."""
        turned = self.angles(self.by_state)
        return np.stack([np.cos(turned), np.sin(turned)], axis=-1).reshape(len(turned), -1)

    def products(self) -> "Characters":
        """Return all characters that these generate, one of each pair of conjugates."""
        if len(self.by_state) > _MAX_CHARACTERS:
            raise CompileError(
                f"the group has {len(self.by_state)} elements; at most {_MAX_CHARACTERS} are written as rotations"
            )
        first = (np.zeros(len(self.by_symbol), dtype=np.int64), np.zeros(len(self.by_state), dtype=np.int64))
        known, waiting = {first[1].tobytes(): first}, [first]
        while waiting:
            by_symbol, by_state = waiting.pop()
            for c in range(self.by_state.shape[1]):
                both = (
                    (by_symbol + self.by_symbol[:, c]) % self.parts,
                    (by_state + self.by_state[:, c]) % self.parts,
                )
                if both[1].tobytes() not in known:
                    known[both[1].tobytes()] = both
                    waiting.append(both)
        kept = [key for key, (_, by_state) in known.items() if key <= (-by_state % self.parts).tobytes()]
        chosen = [known[key] for key in kept]
        return Characters(self.parts, *(np.stack(part, axis=1) for part in zip(*chosen, strict=True)))


def characters(machine: Machine) -> Characters:
    """Return few characters of an Abelian group that separate all elements."""
    chosen: list[CyclicQuotient] = []
    cells = 1
    for quotient in cyclic_quotients(machine) if machine.states > 1 else []:
        apart = len(np.unique(np.stack([other.residues for other in [*chosen, quotient]]), axis=1).T)
        if apart > cells:
            chosen.append(quotient)
            cells = apart
    if not chosen:
        nothing = (np.zeros((machine.symbols, 1), dtype=np.int64), np.zeros((machine.states, 1), dtype=np.int64))
        return Characters(1, *nothing)
    parts = math.lcm(*(quotient.order for quotient in chosen))
    by_symbol = np.stack([q.added * (parts // q.order) for q in chosen], axis=1)
    return Characters(parts, by_symbol, np.stack([q.residues * (parts // q.order) for q in chosen], axis=1))
