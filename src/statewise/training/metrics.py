"""What evaluation measures, as plain values."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Metrics:
    """What one evaluation during training measured.

    Args:
        step: how many steps had been taken.
        loss: the mean training loss since the evaluation before.
        scores: at each length of the plan's probe.
        seconds: since training began.
        validation: the loss on validation sequences, where there are any.
    """

    step: int
    loss: float | None
    scores: tuple[float, ...]
    seconds: float = 0.0
    validation: float | None = None


@dataclass(frozen=True)
class HeldOut:
    """Loss and accuracy on the sequences set aside for validation, asked as in training."""

    count: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Coverage:
    """What of a machine test sequences walked.

    Args:
        walked: how many pairs of a state and a symbol.
        pairs: how many there are that sequences of the task can walk.
        worst: the least accuracy over pairs with which sequences ended.
        where: the state and the symbol of that pair.
    """

    walked: int
    pairs: int
    worst: float
    where: tuple[int, int]


@dataclass(frozen=True)
class Score:
    """How often a model is right at the end of sequences of one length.

    Args:
        length: symbols per sequence.
        count: how many sequences were tried.
        correct: how many were answered correctly.
        classes: how many answers there are, so that guessing is right 1/m of the time.
        majority: the share of the most frequent answer among these sequences: the accuracy of the best constant answer.
        coverage: what of the machine they walked, where that was asked for.
        at_end: where answers were asked for after each symbol, which are then what is counted, the score at the end.
        labels: of a user's own sequences, how often each answer is right.
        span: where sequences of several lengths are scored together, the shortest and the longest.
    """

    length: int
    count: int
    correct: int
    classes: int
    majority: float
    coverage: "Coverage | None" = None
    at_end: "Score | None" = None
    labels: tuple[int, ...] | None = None
    span: tuple[int, int] | None = None

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.correct / self.count

    @property
    def score(self) -> float:
        """(accuracy - 1/m) / (1 - 1/m): 0 is chance, 1 is perfect."""
        return (self.accuracy - 1 / self.classes) / (1 - 1 / self.classes)

    @property
    def constant(self) -> float:
        """The score of the best constant answer on the same sequences."""
        return (self.majority - 1 / self.classes) / (1 - 1 / self.classes)

    @property
    def score_majority(self) -> float:
        """The same relative to the best constant answer; 1 is perfect."""
        return (self.accuracy - self.majority) / (1 - self.majority) if self.majority < 1 else float(self.accuracy == 1)


def span_text(length: int, span: tuple[int, int] | None = None) -> str:
    """Write of which length sequences are: "500", or "33 to 60" where they are of several."""
    low, high = (length, length) if span is None else span
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def pooled_majority(scores: Iterable[tuple[int, float, tuple[int, ...] | None]]) -> float:
    """Return the share that the best constant answer has right over several lengths.

    Args:
        scores: of each length the number of answers, the majority's share, and how often each answer is right; where
            that is not known, each length has a constant answer of its own.
    """
    found = list(scores)
    total, known = sum(count for count, _, _ in found), [labels for _, _, labels in found if labels is not None]
    if len(known) == len(found):
        return max(map(sum, zip(*known, strict=True))) / total
    return sum(share * count for count, share, _ in found) / total


@dataclass(frozen=True)
class SuiteScore:
    """How a model answers a conformance suite.

    Args:
        suite: its name.
        words: how many sequences it has.
        correct: how many were answered correctly.
        longest: symbols of the longest.
        transitions: how many pairs of a state and a symbol they walk.
        unread: sequences of the suite that are too long for the model.
        wrong: a shortest sequence that was answered wrongly; None if there is none.
    """

    suite: str
    words: int
    correct: int
    longest: int
    transitions: int
    unread: int
    wrong: tuple[int, ...] | None

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.correct / self.words
