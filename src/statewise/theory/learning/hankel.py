"""The exact Hankel method: a machine from a complete block of words, in rational numbers.

The Hankel table has a row for each prefix u, a column for each suffix v and label c, and the entry 1 where uv has the
label c. Its rank is finite exactly if a machine gives the labels. For prefixes u whose rows are a basis, the rows of ua
are combinations of them: H_a = A_a H, so A_a = H_a H^-1 (Carlyle and Paz 1971; here by exact elimination). Prefixes are
added until rows are closed, and suffixes until every labelled word is answered as it is labelled (Bergadano and
Varricchio 1996), as long as the words contain what is needed.
"""

from fractions import Fraction
from itertools import islice

from statewise.errors import WordsError
from statewise.machines import Machine
from statewise.theory.learning.labelled import LabelledWords, Word

MAX_STATES = 2_000
# wrong words whose suffixes are tried as columns, and how many suffixes
_TRIED, _MAX_SUFFIXES = 100, 20_000

Vector = tuple[Fraction, ...]


class MissingLabelError(WordsError):
    """A word whose label the block needs and the data lack.

    Args:
        message: the sentence.
        word: in symbol numbers.
    """

    def __init__(self, message: str, word: Word) -> None:
        super().__init__(message)
        self.word = word


def solve_hankel(data: LabelledWords) -> Machine:
    """Learn a machine from a complete block; the error for an incomplete one names the missing word."""
    data.refuse_contradictions("hankel")
    block = _Block(data)
    words = sorted(data.words, key=len)
    while True:
        block.close()
        series = _Series(block)
        wrong = list(islice((word for word in words if series.answer(word) != data.label_of[word]), _TRIED))
        if not wrong:
            return series.explore()
        block.widen(wrong)


class _Block:
    """A Hankel block: prefixes whose rows are a basis, and suffixes."""

    def __init__(self, data: LabelledWords) -> None:
        self.data = data
        self.prefixes: list[Word] = [()]
        self.suffixes: list[Word] = [()]
        # the row of prefix i and symbol a, as a combination of the basis
        self.moves: list[list[Vector]] = []

    def label(self, word: Word) -> int:
        """Return the label of a word that the block needs."""
        label = self.data.label_of.get(word)
        if label is None:
            raise missing(self.data, word)
        return label

    def row(self, prefix: Word) -> list[Fraction]:
        """Return the row of a prefix: a one-hot label for each suffix."""
        labels = len(self.data.output_names)
        entries = [Fraction(0)] * (labels * len(self.suffixes))
        for place, suffix in enumerate(self.suffixes):
            entries[place * labels + self.label(prefix + suffix)] = Fraction(1)
        return entries

    def close(self) -> None:
        """Add prefixes until the row of every prefix and symbol is a combination of the basis."""
        basis = Basis()
        for prefix in self.prefixes:
            basis.add(self.row(prefix))
        moves: list[list[dict[int, Fraction]]] = []
        for prefix in self.prefixes:
            moves.append([])
            for symbol in range(len(self.data.alphabet)):
                row = self.row((*prefix, symbol))
                combination = basis.express(row)
                if combination is None:
                    combination = {len(self.prefixes): Fraction(1)}
                    basis.add(row)
                    self.prefixes.append((*prefix, symbol))
                moves[-1].append(combination)
        size = range(len(self.prefixes))
        self.moves = [[tuple(move.get(i, Fraction(0)) for i in size) for move in row] for row in moves]

    def widen(self, wrong: list[Word]) -> None:
        """Add the shortest suffix of a wrongly answered word that separates rows and whose column is complete."""
        longest = max(len(word) for word in wrong)
        candidates = (word[-size:] for size in range(1, longest + 1) for word in wrong if size <= len(word))
        first: MissingLabelError | None = None
        for suffix in islice(candidates, _MAX_SUFFIXES):
            try:
                if self._separates(suffix):
                    self.suffixes.append(suffix)
                    return
            except MissingLabelError as error:
                first = first or error
        assert first is not None, "a suffix of a wrong word separates rows"
        raise first

    def _separates(self, suffix: Word) -> bool:
        """Return whether a suffix shows that some row is not the combination that it seemed to be."""
        known = [self.label(prefix + suffix) for prefix in self.prefixes]
        found = False
        for prefix, row in zip(self.prefixes, self.moves, strict=True):
            for symbol, move in enumerate(row):
                label = self.label((*prefix, symbol, *suffix))
                # all labels are needed, also after the first difference: the column must be complete
                found |= _only(move, known) != label
        return found


class Basis:
    """Independent rows in echelon form, each with its coefficients in the rows that were added."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, list[Fraction], dict[int, Fraction]]] = []

    def _reduce(self, row: list[Fraction]) -> tuple[list[Fraction], dict[int, Fraction]]:
        combination: dict[int, Fraction] = {}
        for pivot, reduced, made_of in self.rows:
            factor = row[pivot]
            if factor:
                row = [entry - factor * other for entry, other in zip(row, reduced, strict=True)]
                for i, value in made_of.items():
                    combination[i] = combination.get(i, Fraction(0)) + factor * value
        return row, combination

    def express(self, row: list[Fraction]) -> dict[int, Fraction] | None:
        """Return the coefficients of a row in the rows that were added; None if it is independent of them."""
        left, combination = self._reduce(row)
        return None if any(left) else combination

    def add(self, row: list[Fraction]) -> None:
        """Add an independent row."""
        left, combination = self._reduce(row)
        pivot = next(place for place, entry in enumerate(left) if entry)
        scale = 1 / left[pivot]
        made_of = {i: -scale * value for i, value in combination.items()} | {len(self.rows): scale}
        self.rows.append((pivot, [scale * entry for entry in left], made_of))


class _Series:
    """The states of a closed block: combinations of its basis, numbered in order of discovery."""

    def __init__(self, block: _Block) -> None:
        self.block = block
        self.labels = [block.label(prefix) for prefix in block.prefixes]
        first: Vector = tuple(Fraction(int(i == 0)) for i in range(len(block.prefixes)))
        self.number: dict[Vector, int] = {first: 0}
        self.vectors: list[Vector] = [first]
        self.following: dict[tuple[int, int], int] = {}

    def move(self, state: int, symbol: int) -> int:
        """Return the number of the state after a symbol."""
        if (state, symbol) not in self.following:
            parts = [(value, i) for i, value in enumerate(self.vectors[state]) if value]
            moves = self.block.moves
            vector = tuple(
                sum((value * moves[i][symbol][j] for value, i in parts), Fraction(0)) for j in range(len(moves))
            )
            self.following[state, symbol] = self.number.setdefault(vector, len(self.vectors))
            if len(self.number) > len(self.vectors):
                self.vectors.append(vector)
        return self.following[state, symbol]

    def output(self, state: int) -> int | None:
        """Return the label of a state; None where the combination is not a single label."""
        return _only(self.vectors[state], self.labels)

    def answer(self, word: Word) -> int | None:
        """Return the label of a word; None where it has no single one."""
        state = 0
        for symbol in word:
            state = self.move(state, symbol)
        return self.output(state)

    def explore(self) -> Machine:
        """Visit all states and return the machine that they form.

        A series with finitely many values has finitely many states, so one with too many has a word without a label.
        """
        data = self.block.data
        symbols = range(len(data.alphabet))
        number = {0: 0}
        reached: list[tuple[int, Word]] = [(0, ())]
        outputs: list[int] = []
        for state, word in reached:
            output = self.output(state)
            if output is None or len(reached) > MAX_STATES:
                raise missing(data, word)
            outputs.append(output)
            for symbol in symbols:
                following = self.move(state, symbol)
                if following not in number:
                    number[following] = len(reached)
                    reached.append((following, (*word, symbol)))
        delta = [[number[self.move(state, symbol)] for symbol in symbols] for state, _ in reached]
        return Machine(delta, 0, outputs, data.alphabet, data.output_names)


def missing(data: LabelledWords, word: Word) -> MissingLabelError:
    """Build the error for a word without a label."""
    return MissingLabelError(
        f"hankel needs the label of the word {data.spell(word)}, which the words do not have; "
        "expected a block of words that is complete; add this word, or use --method rpni",
        word,
    )


def _only(combination: Vector, labels: list[int]) -> int | None:
    """Return the label of a combination of one-hot labels; None unless it is one-hot itself."""
    sums: dict[int, Fraction] = {}
    for value, label in zip(combination, labels, strict=True):
        if value:
            sums[label] = sums.get(label, Fraction(0)) + value
    left = [(label, value) for label, value in sums.items() if value]
    return left[0][0] if len(left) == 1 and left[0][1] == 1 else None
