"""Where sequences and their answers come from, and what training and evaluation ask of a task made of them.

A machine is a source: it has symbols, outputs and names for both, and answers every sequence. So are labelled sequences
in files, and a function that draws sequences with their answers. Each source makes a task of its own kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from statewise.tasks.batches import Batch, Supervision
from statewise.tasks.lengths import Lengths


@runtime_checkable
class Source(Protocol):
    """What a network is built for and a run directory keeps: names of symbols and of outputs."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...

    @property
    def alphabet(self) -> tuple[str, ...]:
        """A name per symbol."""
        ...

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name per output."""
        ...

    @property
    def symbols(self) -> int:
        """How many symbols there are."""
        ...

    @property
    def classes(self) -> int:
        """How many outputs there are."""
        ...


@dataclass(frozen=True, eq=False)
class Names:
    """The names of symbols and outputs alone: a source that has no machine.

    Args:
        name: the expression that builds it, such as `words("train.csv")`.
        alphabet: a name per symbol.
        output_names: a name per output.
    """

    name: str
    alphabet: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def symbols(self) -> int:
        """How many symbols there are."""
        return len(self.alphabet)

    @property
    def classes(self) -> int:
        """How many outputs there are."""
        return len(self.output_names)


@runtime_checkable
class SequenceTask(Protocol):
    """What training and evaluation ask of a task, whatever its sequences come from."""

    @property
    def source(self) -> Source:
        """Where sequences and answers come from."""
        ...

    @property
    def lengths(self) -> Lengths:
        """How long training sequences are."""
        ...

    @property
    def supervision(self) -> Supervision:
        """After which tokens answers are asked for."""
        ...

    @property
    def samples(self) -> int | None:
        """How many sequences a fixed training set has; None draws fresh ones for ever."""
        ...

    @property
    def validation(self) -> int:
        """How many sequences are set aside for validation."""
        ...

    @property
    def classes(self) -> int:
        """How many outputs sequences end in."""
        ...

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are."""
        ...

    def written_length(self, length: int) -> int:
        """Return how many tokens a sequence of a length takes."""
        ...

    def batch(self, seed: int, position: int, size: int = 64) -> Batch:
        """Return batch number `position` of the training sequences, a function of its arguments alone."""
        ...

    def fixed(self, seed: int) -> Batch:
        """Return the sequences of a fixed training set."""
        ...

    def held_out(self, seed: int) -> Batch:
        """Return the sequences set aside for validation."""
        ...

    def test(self, seed: int, length: int, count: int) -> Batch:
        """Return at most so many test sequences of one length, answered at their end."""
        ...

    def probe(self, seed: int, length: int, count: int) -> Batch:
        """Return the sequences of one length on which training is evaluated on the way."""
        ...

    def familiar(self, seed: int, count: int) -> Sequence[Batch]:
        """Return about so many sequences of the training lengths that training does not draw."""
        ...


class SequenceSource(Names, ABC):
    """A source without a machine, which makes its own tasks."""

    @property
    @abstractmethod
    def defaults(self) -> Mapping[str, Any]:
        """The options that a run on it has unless others are given."""

    @abstractmethod
    def task(self, lengths: Lengths, supervision: Supervision, samples: int | None, validation: int) -> SequenceTask:
        """Make a task of these sequences.

        Args:
            lengths: how long training sequences are.
            supervision: after which tokens answers are asked for.
            samples: how many sequences training is limited to; None is no limit.
            validation: how many further sequences are set aside.
        """
