"""A table of a network's answers, filled in batches: Angluin's L*, with hidden states instead of words.

The row of a word u has the answer to uv for each suffix v. The network's logits of uv are (U A_v) h_u, so a column is
one matrix product with the hidden states of all words. Rows that differ are states (Angluin 1987); a word on which the
machine of the rows is wrong gives one suffix that splits a state (Rivest and Schapire 1993).

Hidden states and suffixes are scaled by powers of two only: where weights are small whole numbers, nothing is rounded.
"""

import numpy as np
from jaxtyping import Float, Int

from statewise.machines import Machine
from statewise.theory.network import Network

Word = tuple[int, ...]


def read_words(network: Network, words: Int[np.ndarray, "word time"]) -> Float[np.ndarray, "word hidden"]:
    """Return the hidden states after words of one length, up to positive factors."""
    h = np.broadcast_to(network.initial, (len(words), network.hidden)).copy()
    for t in range(words.shape[1]):
        # words with the same symbol are one matrix product
        for symbol in np.unique(words[:, t]).tolist():
            rows = words[:, t] == symbol
            h[rows] = h[rows] @ network.matrices[symbol].T
        h = scaled(h)
    return h


def answer_words(network: Network, words: Int[np.ndarray, "word time"]) -> Int[np.ndarray, " word"]:
    """Return the classes of the largest logits after words of one length."""
    return (read_words(network, words) @ network.readout.T).argmax(axis=1)


def scaled(h: Float[np.ndarray, "row entry"]) -> Float[np.ndarray, "row entry"]:
    """Multiply each row by a power of two, so that its largest entry lies between 1/2 and 1."""
    return np.ldexp(h, -np.frexp(np.abs(h).max(axis=1, keepdims=True))[1])


class ObservationTable:
    """Words that lead to all states, each followed by each symbol, and suffixes that separate the states.

    Words that are too short to be asked count as answered by one more class.

    Args:
        network: what answers.
        shortest: words of fewer symbols are not asked.
    """

    def __init__(self, network: Network, shortest: int) -> None:
        self.network, self.shortest = network, shortest
        self.suffixes: list[Word] = []
        self._functionals: list[np.ndarray] = []
        self._hidden = scaled(network.initial[None])
        self._lengths = np.zeros(1, dtype=np.int64)
        self._rows = np.zeros((1, 0), dtype=np.int64)
        # the word of each state, and the words that it and each symbol make
        self._states = [0]
        self._following: list[np.ndarray] = []
        self._add_suffix((), network.readout)
        # the last word that was split, and U A_v for each of its suffixes v
        self._along: tuple[Word, list[np.ndarray]] = ((), [network.readout])

    @property
    def size(self) -> int:
        """The number of states found so far."""
        return len(self._states)

    def _add_suffix(self, suffix: Word, functional: Float[np.ndarray, "class hidden"]) -> None:
        """Add a column: the answers to all words followed by a suffix."""
        self.suffixes.append(suffix)
        self._functionals.append(functional)
        column = self._column(len(self.suffixes) - 1, self._hidden, self._lengths)
        self._rows = np.column_stack([self._rows, column])

    def _column(self, place: int, hidden: np.ndarray, lengths: np.ndarray) -> Int[np.ndarray, " word"]:
        answers = (hidden @ self._functionals[place].T).argmax(axis=1)
        return np.where(lengths + len(self.suffixes[place]) < self.shortest, self.network.classes, answers)

    def close(self, most: int | None) -> bool:
        """Add states until each word leads to one of them; return False where there are more than so many."""
        while True:
            self._follow(self._states[len(self._following) :])
            known = {self._rows[word].tobytes() for word in self._states}
            for words in self._following:
                for word in words.tolist():
                    key = self._rows[word].tobytes()
                    if key not in known:
                        known.add(key)
                        self._states.append(word)
            if most is not None and self.size > most:
                return False
            if len(self._following) == self.size:
                return True

    def _follow(self, words: list[int]) -> None:
        """Add words, each followed by each symbol, symbols fastest."""
        if not words:
            return
        symbols, size = self.network.symbols, self.network.hidden
        flat = self.network.matrices.reshape(symbols * size, size)
        hidden = scaled((self._hidden[words] @ flat.T).reshape(len(words) * symbols, size))
        lengths = np.repeat(self._lengths[words] + 1, symbols)
        first = len(self._hidden)
        self._hidden = np.concatenate([self._hidden, hidden])
        self._lengths = np.concatenate([self._lengths, lengths])
        columns = [self._column(place, hidden, lengths) for place in range(len(self.suffixes))]
        self._rows = np.concatenate([self._rows, np.stack(columns, axis=1)])
        self._following.extend(first + np.arange(len(hidden)).reshape(len(words), symbols))

    def machine(self) -> Machine:
        """Return the machine of a closed table; the class of words that are too short is one more than all others."""
        number = {self._rows[word].tobytes(): state for state, word in enumerate(self._states)}
        delta = [[number[self._rows[word].tobytes()] for word in words.tolist()] for words in self._following]
        return Machine(delta, 0, self._rows[self._states, 0])

    def split(self, word: Word, machine: Machine) -> bool:
        """Add a suffix of a word on which the machine of the table is wrong; return whether there is such a suffix.

        Along the word replace ever longer beginnings by the words of the states that they lead to: the answer changes
        from the network's to the machine's. Where it changes, the rest of the word separates two words of one state.
        """
        functionals = self._suffixes_of(word)
        passed = [machine.start, *machine.track(list(word)).tolist()] if word else [machine.start]
        words = [self._states[state] for state in passed]
        logits = [functional @ self._hidden[place] for functional, place in zip(functionals, words, strict=True)]
        answers = np.argmax(logits, axis=1)
        left = self._lengths[words] + len(word) - np.arange(len(words))
        answers[left < self.shortest] = self.network.classes
        changes = np.flatnonzero(answers[:-1] != answers[1:])
        if answers[0] == answers[-1] or not len(changes):
            return False
        # the last change has the shortest suffix
        place = int(changes[-1]) + 1
        if word[place:] in self.suffixes:
            return False
        self._add_suffix(word[place:], functionals[place])
        return True

    def _suffixes_of(self, word: Word) -> list[np.ndarray]:
        """Return U A_v for each suffix v of a word, the longest first, up to positive factors."""
        if self._along[0] != word:
            made = [self.network.readout]
            for symbol in reversed(word):
                longer = made[-1] @ self.network.matrices[symbol]
                made.append(np.ldexp(longer, -np.frexp(np.abs(longer).max())[1]))
            self._along = (word, made[::-1])
        return self._along[1]
