"""Score against length, on a logarithmic axis."""

from collections.abc import Sequence
from pathlib import Path

from statewise.report.figure import figure_of
from statewise.report.palette import GUIDE, light_kinds


def draw_scores(file: Path, lengths: Sequence[int], scores: Sequence[float], title: str) -> None:
    """Draws one model's score at each length into a .png or .svg file."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    with figure_of(file) as axes:
        axes.axhline(0, color=GUIDE, linewidth=1)
        axes.axhline(1, color=GUIDE, linewidth=1)
        axes.plot([lengths[i] for i in order], [scores[i] for i in order], "o-", color=light_kinds()[0])
        axes.set_xscale("log")
        axes.set_xlabel("word length")
        axes.set_ylabel("score (0 chance, 1 perfect)")
        axes.set_ylim(min(-0.3, *scores) - 0.05, 1.1)
        axes.set_title(title)
