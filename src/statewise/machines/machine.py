"""A finite-state machine as a frozen value: an integer table, a start state, one output per state."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from statewise.errors import ExpressionError, MachineError, TooLargeError, WordError, shorten

MAX_ENTRIES = 5_000_000
MAX_OUTPUTS = 1_000_000

Table = Int[np.ndarray, "state symbol"]
# symbol numbers, for one word or a batch with time as the last axis; or the symbol names of one word
Words = npt.ArrayLike | Sequence[int] | Sequence[str]


@dataclass(frozen=True, eq=False)
class Machine:
    """A complete deterministic Moore machine (Q, Sigma, delta, q0, lambda), validated at birth.

    The word `w` leads from the start to `delta(...delta(start, w[0])..., w[-1])`, and the machine answers with the
    output of that state. For example, parity is `Machine([[0, 1], [1, 0]])`: the word 1 1 0 1 ends in state 1.

    Two machines are equal when they read the same symbols and give equally named outputs for every word.

    Args:
        delta: next state for each state (row) and symbol (column).
        start: the state before the first symbol.
        outputs: a class per state; None makes each state its own class (state tracking).
        alphabet: a name per symbol; None numbers them.
        output_names: a name per class; None numbers them.
        state_names: a name per state; None numbers them.
        name: what to call the machine; not part of its behaviour.
        mealy_states: how many states it had as a Mealy machine, before they were split; not part of its behaviour.
    """

    delta: Table
    start: int = 0
    outputs: Int[np.ndarray, " state"] = field(default=None)  # pyright: ignore[reportAssignmentType]
    alphabet: tuple[str, ...] = field(default=None)  # pyright: ignore[reportAssignmentType]
    output_names: tuple[str, ...] = field(default=None)  # pyright: ignore[reportAssignmentType]
    state_names: tuple[str, ...] = field(default=None)  # pyright: ignore[reportAssignmentType]
    name: str = ""
    mealy_states: int | None = None

    def __init__(
        self,
        delta: npt.ArrayLike,
        start: int = 0,
        outputs: npt.ArrayLike | None = None,
        alphabet: Iterable[str] | None = None,
        output_names: Iterable[str] | None = None,
        state_names: Iterable[str] | None = None,
        name: str = "",
        mealy_states: int | None = None,
    ) -> None:
        table = _table(delta)
        states, symbols = table.shape
        labels = np.arange(states) if outputs is None else _outputs(outputs, states)
        classes = int(labels.max()) + 1
        names = _names("alphabet", alphabet, symbols)
        out_names = _names("output_names", output_names, classes)
        if len(out_names) > MAX_OUTPUTS:
            raise TooLargeError(f"the machine has {len(out_names)} outputs; at most {MAX_OUTPUTS} are handled")
        if isinstance(start, bool) or not isinstance(start, int | np.integer) or not 0 <= start < states:
            raise MachineError(f"start is {shorten(start)}, expected a state from 0 to {states - 1}; correct it")
        table.setflags(write=False)
        labels.setflags(write=False)
        values = (
            table,
            int(start),
            labels,
            names,
            out_names,
            _names("state_names", state_names, states),
            str(name),
            mealy_states,
        )
        for key, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, key, value)

    @property
    def states(self) -> int:
        """The number of states."""
        return self.delta.shape[0]

    @property
    def symbols(self) -> int:
        """The number of symbols."""
        return self.delta.shape[1]

    @property
    def classes(self) -> int:
        """The number of output classes."""
        return len(self.output_names)

    @cached_property
    def _symbol_index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.alphabet)}

    def encode(self, word: Iterable[str]) -> Int[np.ndarray, " time"]:
        """Return symbol names as symbol numbers: for `tomita(1)`, "101" becomes [1, 0, 1]."""
        try:
            return np.array([self._symbol_index[name] for name in word], dtype=np.int64)
        except KeyError as error:
            known = ", ".join(self.alphabet[:10]) + (", ..." if self.symbols > 10 else "")
            raise WordError(f'the word has the symbol "{shorten(error.args[0])}"; this machine reads {known}') from None

    def decode(self, word: npt.ArrayLike | Sequence[int]) -> tuple[str, ...]:
        """Return symbol numbers as symbol names."""
        return tuple(self.alphabet[a] for a in self._checked(word).ravel())

    def track(self, words: Words, start: int | None = None) -> Int[np.ndarray, "*batch time"]:
        """Return the state after each symbol, for one word or a batch of words of one length.

        Args:
            words: symbol numbers, with time as the last axis; or one word as symbol names.
            start: the state before the first symbol; None is the machine's own.
        """
        words = self._checked(words)
        over_time = np.ascontiguousarray(np.moveaxis(words, -1, 0))
        # a state is carried as the place of its row in the flat table: one sum and one look-up per symbol
        place = np.asarray(self._begin(words, start) * self.symbols)
        rows = np.empty_like(over_time)
        for t in range(len(over_time)):
            np.take(self._next_row, place + over_time[t], out=rows[t : t + 1].reshape(place.shape), mode="clip")
            place = rows[t]
        return np.ascontiguousarray(np.moveaxis(rows // self.symbols, 0, -1))

    @cached_property
    def _next_row(self) -> Int[np.ndarray, " entry"]:
        return self.delta.ravel() * self.symbols

    @overload
    def final(self, words: Sequence[int] | Sequence[str], start: int | None = None) -> int: ...

    @overload
    def final(self, words: npt.ArrayLike, start: int | None = None) -> Any: ...

    def final(self, words: Words, start: int | None = None) -> int | Int[np.ndarray, "*batch"]:
        """Return the state that each word leads to; the empty word leads to the start.

        Args:
            words: symbol numbers, with time as the last axis; or one word as symbol names.
            start: the state before the first symbol; None is the machine's own.

        Returns:
            an int for one word, an array for a batch.
        """
        words = self._checked(words)
        state = self._begin(words, start)
        for t in range(words.shape[-1]):
            state = self.delta[state, words[..., t]]
        return int(state) if words.ndim == 1 else np.asarray(state)

    @overload
    def answer(self, words: Sequence[int] | Sequence[str]) -> int: ...

    @overload
    def answer(self, words: npt.ArrayLike) -> Any: ...

    def answer(self, words: Words) -> int | Int[np.ndarray, "*batch"]:
        """Return the output class of the state that each word leads to: `machine("parity").answer([1, 1, 0, 1])` is 1.

        Args:
            words: symbol numbers, with time as the last axis; or one word as symbol names, such as ["set 1", "hold"].

        Returns:
            an int for one word, an array for a batch.
        """
        states = self.final(words)
        return int(self.outputs[states]) if isinstance(states, int) else self.outputs[states]

    def _begin(self, words: np.ndarray, start: int | None) -> np.ndarray:
        if start is not None and not 0 <= start < self.states:
            raise WordError(f"the word begins in state {start}; expected 0 to {self.states - 1}; correct it")
        return np.full(words.shape[:-1], self.start if start is None else start, dtype=np.int64)

    def _checked(self, words: Words) -> np.ndarray:
        if isinstance(words, str | list | tuple) and all(isinstance(name, str) for name in words):
            return self.encode(map(str, words))
        array = np.asarray(words)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.ndim == 0 or array.dtype.kind not in "iu":
            raise WordError(
                f"words are {array.dtype} with {array.ndim} axes; expected symbol numbers with time as the last axis; "
                "give a list of names for one word, and encode each word of a batch"
            )
        if array.size and (array.min() < 0 or array.max() >= self.symbols):
            wrong = array[(array < 0) | (array >= self.symbols)].flat[0]
            raise WordError(f"the word has the symbol number {wrong}; expected 0 to {self.symbols - 1}; correct it")
        return array.astype(np.int64, copy=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Machine):
            return NotImplemented
        if self is other:
            return True
        from statewise.machines.behaviour import distinguish

        return set(self.alphabet) == set(other.alphabet) and distinguish(self, other) is None

    def __hash__(self) -> int:
        return self._behaviour_hash

    @cached_property
    def _behaviour_hash(self) -> int:
        from statewise.machines.behaviour import minimise

        order = np.argsort(np.array(self.alphabet))
        canonical = minimise(Machine(self.delta[:, order], self.start, self.outputs))
        named = tuple(self.output_names[c] for c in canonical.outputs)
        return hash((tuple(sorted(self.alphabet)), canonical.delta.tobytes(), named))

    def __reduce__(self) -> tuple[Any, ...]:
        # copies and pickles are built and validated like any other machine, and as frozen
        return Machine, tuple(getattr(self, key) for key in self.__dataclass_fields__)

    def __repr__(self) -> str:
        title = f"{self.name}: " if self.name else ""
        return f"<Machine {title}{self.states} states, {self.symbols} symbols, {self.classes} outputs>"

    def replace(self, **changes: Any) -> "Machine":
        """Return a copy with some fields changed, validated like any other machine."""
        fields = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return Machine(**(fields | changes))


def check_at_least(least: int, family: str, argument: str, value: int) -> None:
    """Raise an error for an argument of a family that is too small."""
    if value < least:
        raise ExpressionError(f"{family} needs {argument} of at least {least}, got {value}; correct it")


def check_entries(family: str, states: int, symbols: int, advice: str = "use a smaller size") -> None:
    """Raise an error for a table past the bound, before it is built."""
    if states * symbols > MAX_ENTRIES:
        raise TooLargeError(
            f"{family} would have {_count(states)} states and {_count(symbols)} symbols; "
            f"tables of at most {MAX_ENTRIES:,} entries are handled; {advice}"
        )


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else "over 10^15"


def identical(a: Machine, b: Machine) -> bool:
    """Return whether two machines are equal field by field, names of states included (not only in behaviour)."""
    return (
        np.array_equal(a.delta, b.delta)
        and a.start == b.start
        and np.array_equal(a.outputs, b.outputs)
        and (a.alphabet, a.output_names, a.state_names) == (b.alphabet, b.output_names, b.state_names)
    )


def _integers(what: str, value: npt.ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise MachineError(f"{what} has rows of different lengths or numbers too large; make it rectangular") from None
    if array.size and array.dtype.kind not in "iu":
        raise MachineError(f"{what} holds values of type {array.dtype}; expected whole numbers; correct it")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise MachineError(f"{what} holds the number {array.max()}; expected small whole numbers; correct it")
    return array.astype(np.int64)


def _table(delta: npt.ArrayLike) -> Table:
    table = _integers("delta", delta)
    if table.ndim != 2 or 0 in table.shape:
        raise MachineError(
            f"delta has shape {table.shape}; expected states x symbols, at least one of each; give a row per state"
        )
    states, symbols = table.shape
    if table.size > MAX_ENTRIES:
        raise TooLargeError(f"delta has {states} x {symbols} entries; at most {MAX_ENTRIES:,} are handled")
    wrong = np.argwhere((table < 0) | (table >= states))
    if len(wrong):
        q, a = wrong[0]
        raise MachineError(
            f"delta leads from state {q} on symbol {a} to {table[q, a]}; expected a state from 0 to {states - 1}"
        )
    return table


def _outputs(outputs: npt.ArrayLike, states: int) -> Int[np.ndarray, " state"]:
    labels = _integers("outputs", outputs)
    if labels.shape != (states,):
        raise MachineError(f"outputs has shape {labels.shape}; expected one per state, {states} in all; correct it")
    if labels.min() < 0 or labels.max() >= MAX_OUTPUTS:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise MachineError(f"outputs holds {wrong}; expected classes from 0 below {MAX_OUTPUTS}; use output_names")
    return labels


def _names(what: str, names: Iterable[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(index) for index in range(count))
    if isinstance(names, str):
        names = list(names)
    checked: Sequence[str] = tuple(names)
    # a readout may know more classes than this machine's states show
    enough = len(checked) >= count if what == "output_names" else len(checked) == count
    if not enough:
        raise MachineError(f"{what} has {len(checked)} names; expected {count}; correct it")
    if not all(isinstance(name, str) for name in checked):
        raise MachineError(f"{what} holds a value that is not a string; expected names; turn it into a string")
    if len(set(checked)) != len(checked):
        twice = next(name for index, name in enumerate(checked) if name in checked[:index])
        raise MachineError(f'{what} names "{shorten(twice)}" twice; expected different names; rename one')
    if any("\ud800" <= character <= "\udfff" for name in checked for character in name):
        raise MachineError(f"{what} holds half of a surrogate pair; expected text that can be written; correct it")
    if what == "alphabet" and "" in checked:
        raise MachineError(f"symbol {checked.index('')} has an empty name; expected at least one character; name it")
    return tuple(checked)
