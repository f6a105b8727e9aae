"""The score of a run as a paper reports it: that at one length, or the mean over several."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Annotated, Literal, final

from pydantic import Field

from statewise.papers.contents import Data
from statewise.runs.record import Record, RecordedScore

OverSeeds = Literal["median", "mean", "best"]
# how the scores of several seeds become one
SUMMARIES: Mapping[OverSeeds, Callable[[Sequence[float]], float]] = {"median": median, "mean": fmean, "best": max}


class _Rule(Data, ABC):
    """Which of a run's test lengths a paper's scores are of; scores of several are averaged."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The longest of these lengths."""

    @property
    @abstractmethod
    def short(self) -> str:
        """The lengths in a word."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The lengths for a reader, after "score"."""

    @abstractmethod
    def counts(self, length: int) -> bool:
        """Return whether scores at a length count."""

    def score(self, record: Record) -> float:
        """Return the score of a run; one that diverged has none, and counts as chance."""
        return _mean([score.score for score in self._counted(record)])

    def constant(self, record: Record) -> float:
        """Return the score of the best constant answer on the same sequences."""
        return _mean([score.constant for score in self._counted(record)])

    def standard_error(self, record: Record) -> float:
        """Return the standard error of the score, from the number of sequences; 0 where that is not known."""
        errors = [_standard_error(score) for score in self._counted(record)]
        return math.hypot(*errors) / len(errors) if errors else 0.0

    def _counted(self, record: Record) -> list[RecordedScore]:
        return [score for score in record.scores if self.counts(score.length)]


@final
class AtLength(_Rule):
    """The score at one length."""

    rule: Literal["length"] = "length"
    length: int

    @property
    def longest(self) -> int:
        """That length."""
        return self.length

    @property
    def short(self) -> str:
        """That length."""
        return f"{self.length:,}"

    @property
    def text(self) -> str:
        """That length, after "score"."""
        return f"at length {self.length:,}"

    def counts(self, length: int) -> bool:
        """Return whether it is that length."""
        return length == self.length


@final
class MeanOverLengths(_Rule):
    """The mean of the scores at all tested lengths from a first to a last; each length counts alike."""

    rule: Literal["mean"] = "mean"
    first: int
    last: int

    @property
    def longest(self) -> int:
        """The last."""
        return self.last

    @property
    def short(self) -> str:
        """The first and the last."""
        return f"{self.first} to {self.last:,}"

    @property
    def text(self) -> str:
        """The lengths, after "score"."""
        return f"averaged over lengths {self.short}"

    def counts(self, length: int) -> bool:
        """Return whether the length is one of these."""
        return self.first <= length <= self.last


ScoreRule = Annotated[AtLength | MeanOverLengths, Field(discriminator="rule")]


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _standard_error(score: RecordedScore) -> float:
    if score.count is None or score.classes is None or score.accuracy is None:
        return 0.0
    chance = 1 / score.classes
    correct = min(max(score.accuracy, chance), 1.0)
    return math.sqrt(correct * (1 - correct) / score.count) / (1 - chance)
