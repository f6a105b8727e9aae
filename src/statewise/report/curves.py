"""Curves as pictures of their own: score against length, and parity against Proposition 3."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from statewise.errors import shorten
from statewise.report.figure import figure_of, panels_of
from statewise.report.palette import GUIDE, KINDS, light_kinds, line_style
from statewise.theory.frozen_parity import Frequency

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# panels in a row
_ACROSS = 4
_TRAINED = "#eceff3"
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Panel:
    """What is drawn of one task.

    Args:
        curves: by model, points of a length, a mean and a standard deviation; a model without a name has no entry in
            the legend.
        constant: by length, the score of the best constant answer.
        trained: the shortest and the longest training sequences.
    """

    curves: dict[str, Sequence[tuple[int, float, float]]] = field(default_factory=dict)
    constant: dict[int, float] = field(default_factory=dict)
    trained: tuple[int, int] | None = None


def draw_scores(file: Path, lengths: Sequence[int], scores: Sequence[float], title: str) -> None:
    """Draw one model's score at each length into a .png or .svg file."""
    points = [(length, score, 0.0) for length, score in sorted(zip(lengths, scores, strict=True))]
    draw_comparison(file, {title: Panel({"": points})})


def draw_comparison(file: Path, panels: Mapping[str, Panel]) -> None:
    """Draw score against length, a panel for each task and a curve for each model, into a .png or .svg file.

    A band is a standard deviation over seeds, and the dotted line is the best constant answer.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel.curves))
    heights = [mean - std for panel in panels.values() for points in panel.curves.values() for _, mean, std in points]
    rows = math.ceil(len(panels) / _ACROSS)
    with panels_of(file, len(panels), rows) as drawn:
        for axes, (title, panel) in zip(drawn, panels.items(), strict=True):
            if panel.trained is not None:
                axes.axvspan(*panel.trained, color=_TRAINED, linewidth=0, zorder=0, label="training lengths")
            axes.axhline(1, color=GUIDE, linewidth=0.8)
            axes.axhline(0, color=GUIDE, linewidth=0.8)
            for name, points in panel.curves.items():
                _draw_curve(axes, names.index(name), name, points)
            if panel.constant:
                constant = sorted(panel.constant.items())
                axes.plot(*zip(*constant, strict=True), ":", color="#4a5563", linewidth=1.4, label="constant answer")
            axes.set_xscale("log")
            lengths = sorted({length for points in panel.curves.values() for length, _, _ in points})
            # a label for each length that was tested, in place of powers of ten
            axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
            axes.tick_params(which="minor", bottom=False, labelbottom=False)
            axes.set_ylim(max(-1.05, min([-0.1, *heights]) - 0.05), 1.06)
            axes.set_title(shorten(title, 48), fontsize=10)
            axes.tick_params(labelsize=8)
        for axes in drawn[-_ACROSS:]:
            axes.set_xlabel("sequence length", fontsize=9)
        for axes in drawn[::_ACROSS]:
            axes.set_ylabel("score (0 chance, 1 perfect)", fontsize=9)
        if any(names):
            entries = {
                text: line for axes in drawn for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            # past its panel, at the height of all rows
            figure = drawn[0].figure
            figure.legend(entries.values(), entries.keys(), frameon=False, fontsize=8, loc="outside right center")


def _draw_curve(axes: "Axes", index: int, name: str, points: Sequence[tuple[int, float, float]]) -> None:
    if not points:
        return
    lengths, means, stds = zip(*points, strict=True)
    style = line_style(index)
    # past eight, colours begin again
    dashes = _DASHES[index // KINDS % len(_DASHES)]
    axes.plot(lengths, means, linestyle=dashes, linewidth=1.6, label=name or None, **style)
    if any(stds):
        low, high = ([m + sign * s for m, s in zip(means, stds, strict=True)] for sign in (-1, 1))
        axes.fill_between(lengths, low, high, color=style["color"], alpha=0.12, linewidth=0)


def draw_frequencies(file: Path, frequencies: Sequence[Frequency]) -> None:
    """Draw the share of networks that failed, with its 95 % interval, and 2^-H, on a logarithmic axis."""
    sizes = [f.hidden for f in frequencies]
    failed = [1 - f.learned / f.draws for f in frequencies]
    # a share of 0 has no place on the axis, its interval has
    shown = [(h, y) for h, y in zip(sizes, failed, strict=True) if y > 0]
    ours, theirs = light_kinds()[:2]
    with figure_of(file) as axes:
        axes.fill_between(
            sizes,
            [max(1 - f.high, 1e-6) for f in frequencies],
            [1 - f.low for f in frequencies],
            color=ours,
            alpha=0.25,
            label="95 % interval",
        )
        axes.plot(sizes, [1 - f.predicted for f in frequencies], "--", color=theirs, label="$2^{-H}$")
        axes.plot([h for h, _ in shown], [y for _, y in shown], "o", color=ours, label="networks that failed")
        axes.set_yscale("log")
        axes.set_ylim(0.3 * min(1 - f.predicted for f in frequencies), 1)
        axes.set_xticks(sizes)
        axes.set_xlabel("hidden size H")
        axes.set_ylabel("share that failed")
        axes.set_title(f"Parity from two examples, {frequencies[0].draws:,} random frozen networks per size")
        axes.legend(frameon=False)
