"""Sequences that a function draws together with their answers, where no machine gives them: by a grammar, say."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from statewise.errors import TaskError
from statewise.randomness import stream
from statewise.tasks.batches import AT_END, FORMATS, Batch, Supervision, count_tokens, written_length
from statewise.tasks.drawn_tests import Draw, DrawnTests
from statewise.tasks.lengths import Lengths
from statewise.tasks.source import SequenceSource


@dataclass(frozen=True, eq=False)
class GeneratedSource(SequenceSource):
    """Sequences and answers that a function draws.

    Args:
        name: the expression that builds it.
        alphabet: a name per symbol.
        output_names: a name per output.
        draw: what draws them, from a generator and the lengths that are asked for.
        aligned: whether the answers after all symbols are right, not the last alone.
        options: what a run on it has unless others are given, such as `{"longest": 40}`.
    """

    draw: Draw
    aligned: bool = False
    options: Mapping[str, Any] | None = None

    def defaults(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options that a run on it has unless others are given."""
        # a model's recipe may ask for answers that there are not
        asked = {} if self.aligned else {"supervision": "final"}
        return {**asked, **(self.options or {})}

    def task(self, lengths: Lengths, supervision: Supervision, samples: int | None, validation: int) -> "GeneratedTask":
        """Make a task of these sequences, drawn fresh for ever."""
        if samples is not None or validation:
            raise TaskError(f"{self.name} draws fresh sequences for ever; leave samples and validation out")
        return GeneratedTask(self, lengths, supervision)


@dataclass(frozen=True, eq=False)
class GeneratedTask:
    """A task whose sequences are drawn with their answers.

    Args:
        source: what draws them.
        lengths: how long training sequences are.
        supervision: after which tokens answers are asked for.
    """

    source: GeneratedSource
    lengths: Lengths
    supervision: Supervision = "final"

    def __post_init__(self) -> None:
        if self.supervision not in AT_END and not self.source.aligned:
            raise TaskError(
                f"{self.source.name} has an answer at the end of a sequence only, supervision is {self.supervision}; "
                "use supervision final or closed"
            )

    samples: int | None = None
    validation: int = 0

    @property
    def classes(self) -> int:
        """How many outputs sequences end in."""
        return self.source.classes

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are: symbols, and those that the supervision adds."""
        return count_tokens(self.supervision, self.source.symbols, self.source.classes)

    def written_length(self, length: int) -> int:
        """Return how many tokens a sequence of a length takes."""
        return written_length(self.supervision, length)

    def batch(self, seed: int, position: int, size: int = 64) -> Batch:
        """Return batch number `position` of the training sequences."""
        generator = stream(seed, "train", position, size)
        drawn = self.source.draw(generator, self.lengths.draw(generator, size, position))
        return FORMATS[self.supervision](*drawn, self.source.symbols)

    def fixed(self, seed: int) -> Batch:
        """Refuse: there is no fixed set."""
        raise TaskError("this task draws fresh sequences for ever; there is no fixed set of them")

    def held_out(self, seed: int) -> Batch:
        """Refuse: nothing is set aside."""
        raise TaskError("this task draws fresh sequences for ever; it sets no validation sequences aside")

    def test(self, seed: int, length: int, count: int) -> Batch:
        """Return test sequences of one length, answered at their end, from a stream apart from that of training."""
        return self._tests.of_length(seed, length, count)

    def probe(self, seed: int, length: int, count: int) -> Batch:
        """Return the test sequences of one length."""
        return self.test(seed, length, count)

    def familiar(self, seed: int, count: int) -> list[Batch]:
        """Return test sequences of every training length."""
        return self._tests.of_training(seed, self.lengths, count)

    @cached_property
    def _tests(self) -> DrawnTests:
        return DrawnTests(self.source.draw, self.source.symbols)
