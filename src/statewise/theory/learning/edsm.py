"""Evidence-driven state merging (EDSM; Lang, Pearlmutter and Price 1998), over two readings of the labels.

The prefix tree of the words is folded state by state. Red states are final; blue ones are the children of red ones that
are not. A merge of a blue state into a red one folds all that is known below the two, and its evidence is the number of
labels that meet an equal one. A blue state that no red one can take, since labels would meet a different one, becomes
red; otherwise the merge with the most evidence is made. Among blue states, the ones that the most words pass are tried
(a window, as in Cicchello and Kremer 2002): the others have little evidence yet.

A label can be read as the output of a state (Moore) or of a transition (Mealy), and both describe all machines. A state
of a Mealy machine is a Moore state for each output that leads to it, so the traces of a protocol say more of each state
as Mealy's; where outputs are states, they say more as Moore's. Both are tried, with a narrow and a wide window, and the
machine is kept whose table has the fewest bits (Rissanen 1978).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest

import numpy as np

from statewise.errors import WordsError
from statewise.machines import Machine, minimise
from statewise.stages import say
from statewise.theory.learning.labelled import LabelledWords, Word
from statewise.theory.learning.mealy import from_mealy, mealy_bits, moore_bits, table_bits

# visits of pairs of states of the prefix tree, in all attempts to merge together
WORK = 30_000_000
# how many blue states are compared in each round
_WINDOWS = (8, 64)
# the question that asks a state, and no transition, for its label
_OWN = -1


class BudgetError(WordsError):
    """A search that its budget ended before there was a machine."""

    exit_code = 1


@dataclass(frozen=True, eq=False)
class Merged:
    """A machine by evidence.

    Args:
        machine: minimal.
        ended: how far the search was that the budget ended; None where none was.
    """

    machine: Machine
    ended: str | None


def merge_by_evidence(data: LabelledWords, work: int = WORK) -> Merged:
    """Learn a machine that answers every word as it is labelled, by evidence.

    Transitions that no word uses lead back to their own state, and labels that no word shows are one that suits: the
    words determine neither, and `check_uniqueness` reports it.

    Args:
        data: words without contradictions.
        work: how many pairs of states to visit at most.
    """
    data.refuse_contradictions("edsm")
    best: Machine | None = None
    bits, ended = float("inf"), None
    for window in _WINDOWS:
        for kind in (_MealySearch, _MooreSearch):
            search = kind(data, window, work)
            # a search stops where its table has more bits than the best one
            if search.run(bits):
                found = minimise(search.machine())
                if table_bits(found) < bits:
                    best, bits = found, table_bits(found)
            work -= search.steps
            if work <= 0:
                ended = ended or search.progress()
                break
        if work <= 0:
            break
    if best is None:
        raise BudgetError(
            f"edsm ended without a machine, at {ended}, when its steps were used up; expected an end within them; "
            "raise --work, or give fewer or shorter words"
        )
    return Merged(best, ended)


class _Search(ABC):
    """The folding of one prefix tree."""

    def __init__(self, data: LabelledWords, window: int, work: int) -> None:
        self.data, self.window, self.work = data, window, work
        self.steps = 0
        # of each state: the states after it, the labels that are known, and how many words pass
        self.after: list[dict[int, int]] = [{}]
        self.labels: list[dict[int, int]] = [{}]
        self.passing: list[int] = [0]
        for word, label in data.label_of.items():
            self.note(self._path(word), word, label)
        self.red: list[int] = [0]
        # labels only become more as states merge, so what cannot be merged once never can
        self.apart: set[tuple[int, int]] = set()

    @abstractmethod
    def note(self, path: list[int], word: Word, label: int) -> None:
        """Write the label of a word where it belongs on its path."""

    @abstractmethod
    def bits(self) -> float:
        """Return the bits of a table of the red states."""

    @abstractmethod
    def machine(self) -> Machine:
        """Return the folded tree as a machine with outputs at its states."""

    def _path(self, word: Word) -> list[int]:
        """Return the states of a word in the tree, which grows where there are none."""
        path = [0]
        for symbol in word:
            node = self.after[path[-1]].setdefault(symbol, len(self.after))
            if node == len(self.after):
                self.after.append({})
                self.labels.append({})
                self.passing.append(0)
            path.append(node)
        for node in path:
            self.passing[node] += 1
        return path

    def run(self, bits: float) -> bool:
        """Merge until all states are red; False if the steps are used up, or the table has more bits than these."""
        passing = self.passing
        while blue := list(self._blue()):
            if self.steps >= self.work or self.bits() > bits:
                return False
            say("merging states by evidence", detail=self.progress)
            self._round(nlargest(self.window, blue, key=lambda edge: passing[edge[2]]))
        return True

    def _blue(self) -> Iterator[tuple[int, int, int]]:
        """Yield the edges that leave the red states: from, symbol, blue state."""
        red = set(self.red)
        for state in self.red:
            for symbol, target in self.after[state].items():
                if target not in red:
                    yield state, symbol, target

    def _round(self, blue: list[tuple[int, int, int]]) -> None:
        """Make a blue state red, if it can be merged with none, or make the merge with the most evidence."""
        best, chosen = -1, None
        for edge in blue:
            alone = True
            for red in self.red:
                if (red, edge[2]) in self.apart:
                    continue
                evidence = self._fold(edge, red)
                if evidence < 0:
                    self.apart.add((red, edge[2]))
                    continue
                alone = False
                if evidence > best:
                    best, chosen = evidence, (edge, red)
            if alone:
                self.red.append(edge[2])
                return
        assert chosen is not None, "a state that no red one takes becomes red"
        self._fold(*chosen, keep=True)

    def _fold(self, edge: tuple[int, int, int], red: int, keep: bool = False) -> int:
        """Fold a blue state into a red one, and return the evidence, -1 where labels differ; undo it unless told."""
        source, symbol, blue = edge
        self.after[source][symbol] = red
        added: list[tuple[dict[int, int], int]] = []
        waiting = [(red, blue)]
        evidence = 0
        while waiting and evidence >= 0:
            here, there = waiting.pop()
            self.steps += 1
            evidence = _compare(self.labels[here], self.labels[there], evidence, added)
            targets = self.after[here]
            for moved, below in self.after[there].items():
                if moved in targets:
                    waiting.append((targets[moved], below))
                else:
                    targets[moved] = below
                    added.append((targets, moved))
            if keep:
                self.passing[here] += self.passing[there]
        if not keep:
            for table, key in reversed(added):
                del table[key]
            self.after[source][symbol] = blue
        return evidence

    def progress(self) -> str:
        """Return how far the search is."""
        return f"{len(self.red):,} states with {sum(1 for _ in self._blue()):,} open transitions"

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the red states' transitions, and their labels by question; -1 where none is known."""
        number = {state: q for q, state in enumerate(self.red)}
        delta = np.repeat(np.arange(len(number))[:, None], len(self.data.alphabet), axis=1)
        labels = np.full((len(number), len(self.data.alphabet) + 1), -1)
        for state, q in number.items():
            for symbol, target in self.after[state].items():
                delta[q, symbol] = number[target]
            for question, label in self.labels[state].items():
                labels[q, question] = label
        return delta, labels


class _MooreSearch(_Search):
    """Labels as outputs of states."""

    def note(self, path: list[int], word: Word, label: int) -> None:
        """Write the label at the last state."""
        self.labels[path[-1]][_OWN] = label

    def bits(self) -> float:
        """Return the bits of a table with an output for each state."""
        return moore_bits(len(self.red), len(self.data.alphabet), len(self.data.output_names))

    def machine(self) -> Machine:
        """Return the folded tree; a state without a label has the most frequent one."""
        delta, labels = self.tables()
        own = labels[:, _OWN]
        outputs = np.where(own < 0, self.data.counts.sum(axis=0).argmax(), own)
        return Machine(delta, 0, outputs, self.data.alphabet, self.data.output_names)


class _MealySearch(_Search):
    """Labels as outputs of transitions."""

    def note(self, path: list[int], word: Word, label: int) -> None:
        """Write the label at the last transition; that of the empty word tells nothing of any."""
        if word:
            self.labels[path[-2]][word[-1]] = label

    def bits(self) -> float:
        """Return the bits of a table with an output for each transition."""
        return mealy_bits(len(self.red), len(self.data.alphabet), len(self.data.output_names))

    def machine(self) -> Machine:
        """Return the folded tree with a state for each state and label that leads to it."""
        delta, labels = self.tables()
        names = self.data.alphabet, self.data.output_names
        return from_mealy(delta, labels[:, :-1], *names, self.data.label_of.get(()))


def _compare(known: dict[int, int], others: dict[int, int], evidence: int, added: list) -> int:
    """Add labels to those that are known, and one to the evidence for each that is equal; return -1 at a difference."""
    for question, label in others.items():
        if question not in known:
            known[question] = label
            added.append((known, question))
        elif known[question] == label:
            evidence += 1
        else:
            return -1
    return evidence
