"""What a proof for another program is about: a network of whole numbers, a machine, the words that are judged.

Coq and SMT solvers read whole numbers. Multiplying a matrix, the initial state or the readout by a positive number
changes no answer, so each of them is written as whole numbers without a common divisor.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool

from statewise.errors import NetworkError, shorten
from statewise.machines import Machine
from statewise.runs.run import Run
from statewise.tasks import legal_moves
from statewise.theory.network import Network
from statewise.training.manifest import WEIGHTS, read_manifest

# float64 adds whole numbers below this without rounding
_EXACT = 1 << 53


@dataclass(frozen=True, eq=False)
class Statement:
    """A network and a machine that are to agree on all legal words of at least `shortest` symbols.

    Args:
        matrices: A[a] for each symbol a, in Python integers.
        initial: h_0.
        readout: U.
        machine: what the network should answer.
        language: for each state of the language the next one on each symbol, None where the symbol may not follow;
            state 0 is the first.
        shortest: words of fewer symbols are not judged.
        restricted: whether some symbol may somewhere not follow.
    """

    matrices: np.ndarray
    initial: np.ndarray
    readout: np.ndarray
    machine: Machine
    language: tuple[tuple[int | None, ...], ...]
    shortest: int
    restricted: bool

    @property
    def hidden(self) -> int:
        """The hidden size."""
        return len(self.initial)

    @property
    def symbols(self) -> int:
        """The number of symbols."""
        return len(self.matrices)

    @property
    def classes(self) -> int:
        """The number of classes of the readout."""
        return len(self.readout)

    def moved(self, vector: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return A[a] times a vector for each symbol, without rounding."""
        if self._largest * max(1, *map(abs, vector)) * self.hidden < _EXACT:
            moved = (self._small @ np.array(vector, dtype=np.float64)).astype(np.int64)
            return [tuple(row) for row in moved.tolist()]
        column = np.array(vector, dtype=object)
        return [tuple((matrix @ column).tolist()) for matrix in self.matrices]

    @cached_property
    def _largest(self) -> int:
        return max(1, int(np.abs(self.matrices).max()))

    @cached_property
    def _small(self) -> np.ndarray:
        return self.matrices.astype(np.float64)


def described(statement: Statement, run: Run | None) -> list[str]:
    """Say in a few lines what the numbers of a file are: whose weights, which symbols and outputs.

    Args:
        statement: what the file is about.
        run: where the network came from; None for one in memory.
    """
    lines = ["network: in memory" if run is None or run.where is None else f"network: {run.where}"]
    if run is not None and run.path is not None:
        listed = read_manifest(run.home)
        if listed is not None and listed.folder is not None:
            lines.append(f"weights: SHA-256 {listed.sha256[WEIGHTS]} of its {WEIGHTS}")
    elif run is not None and run.kept is not None and run.kept.weights is not None:
        lines.append(f"weights: SHA-256 {hashlib.sha256(run.kept.weights).hexdigest()} of its tensors")
    machine, size = statement.machine, f"{statement.symbols} matrices of {statement.hidden} x {statement.hidden}"
    return [
        *lines,
        f"holds: {size}, the initial state and the readout, each times a positive number, which changes no answer",
        f"machine: {machine.name or 'unnamed'}",
        f"symbols: {_numbered(machine.alphabet)}",
        f"outputs: {_numbered(machine.output_names)}",
    ]


def _numbered(names: tuple[str, ...]) -> str:
    return ", ".join(f"{number} = {shorten(name)}" for number, name in enumerate(names))


def statement_of(network: Network, machine: Machine, shortest: int, restricted: bool) -> Statement:
    """Write down what is to be proved.

    Args:
        network: the network; its weights are read as the rational numbers that they are.
        machine: what it should answer; the same symbols in the same order.
        shortest: words of fewer symbols are not judged.
        restricted: judge only words that the task can draw.
    """
    whole: tuple[np.ndarray, np.ndarray, np.ndarray] | None = network.integers
    if whole is None:
        raise NetworkError(
            "the network's matrices are cosines or exponentials of its weights, which no whole numbers express; Coq "
            "and SMT-LIB files are written of full, cp, block and diagonal networks; leave --coq and --smt out"
        )
    legal = legal_moves(machine) if restricted else np.ones(machine.delta.shape, dtype=bool)
    language = _language(machine, legal)
    stuck = any(there is None for moves in language for there in moves)
    return Statement(*whole, machine, language, shortest, stuck)


def _language(machine: Machine, legal: Bool[np.ndarray, "state symbol"]) -> tuple[tuple[int | None, ...], ...]:
    """Return the least automaton of the words whose every symbol may follow the state that it is read in."""
    # the coarsest classes of states such that the same symbols may follow, for ever
    _, found = np.unique(legal, axis=0, return_inverse=True)
    while True:
        following = np.where(legal, found.ravel()[machine.delta], -1)
        _, finer = np.unique(np.column_stack([found.ravel(), following]), axis=0, return_inverse=True)
        if finer.max() == found.max():
            break
        found = finer
    classes = finer.ravel()
    # numbered in the order in which words reach them, with one state of the machine for each
    numbers, states = {int(classes[machine.start]): 0}, [machine.start]
    rows: list[tuple[int | None, ...]] = []
    for state in states:
        row: list[int | None] = []
        for symbol in range(machine.symbols):
            there = int(machine.delta[state, symbol])
            if not legal[state, symbol]:
                row.append(None)
                continue
            if int(classes[there]) not in numbers:
                numbers[int(classes[there])] = len(states)
                states.append(there)
            row.append(numbers[int(classes[there])])
        rows.append(tuple(row))
    return tuple(rows)
