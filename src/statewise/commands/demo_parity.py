"""`statewise demo-parity`: Proposition 3, drawn ten thousand times."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, check_least, path_of
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.theory.frozen_parity import Frequency

_SIZES = range(1, 11)
_FOLLOWED_HIDDEN, _FOLLOWED_SEQUENCES = 8, 4


@dataclass(frozen=True)
class ParityDemonstration(Result):
    """How often random frozen networks learn parity from two examples, and how far one of them follows it.

    Args:
        frequencies: one for each hidden size.
        length: of the sequences that one network followed.
        sequences: how many these were.
        correct: how many it answered correctly.
        drawn: the file of the plot.
    """

    frequencies: "tuple[Frequency, ...]"
    length: int
    sequences: int
    correct: int
    drawn: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the frequencies, and what one network followed."""
        rows = [
            {
                "hidden": f.hidden,
                "draws": f.draws,
                "learned": f.learned,
                "predicted": f.predicted,
                "low": f.low,
                "high": f.high,
            }
            for f in self.frequencies
        ]
        return {"rows": rows, "length": self.length, "words": self.sequences, "correct": self.correct}

    def lines(self) -> Lines:
        """Return a line for each hidden size, and what one network followed."""
        lines = [("H", "learned  95 % interval      1 - 2^-H")]
        lines += [
            (str(f.hidden), f"{f.learned / f.draws:.4f}   {f.low:.4f} to {f.high:.4f}   {f.predicted:.4f}")
            for f in self.frequencies
        ]
        followed = f"one network of size {_FOLLOWED_HIDDEN} over {self.sequences} sequences of {self.length:,} bits"
        lines += [("", ""), ("followed", f"{followed}: {self.correct} correct")]
        return lines if self.drawn is None else [*lines, ("plot", str(self.drawn))]


def demo_parity(
    draws: int = 10_000, length: int = 1_000_000, seed: int = 0, plot: PathLike | None = None
) -> ParityDemonstration:
    """Learn parity from two examples with a frozen random diagonal, at every length.

    Args:
        draws: networks per hidden size
        length: the length at which one network is followed bit by bit
        seed: of the draws
        plot: draw the frequencies into this .png or .svg
    """
    from statewise.report.curves import draw_frequencies
    from statewise.report.figure import check_figure_file
    from statewise.theory.frozen_parity import frequency, track_parity

    check_least("length", length, 1)
    file = path_of(plot)
    if file is not None:
        check_figure_file(file)
    frequencies = [frequency(hidden, draws, seed) for hidden in _SIZES]
    correct, sequences = track_parity(_FOLLOWED_HIDDEN, length, _FOLLOWED_SEQUENCES, seed)
    if file is not None:
        draw_frequencies(file, frequencies)
    return ParityDemonstration(tuple(frequencies), length, sequences, correct, file)
