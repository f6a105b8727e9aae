"""Curves as pictures of their own: score against length, and parity against Proposition 3."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from statewise.report.figure import figure_of, panels_of
from statewise.report.palette import GUIDE, light_kinds, line_style
from statewise.theory.frozen_parity import Frequency


def draw_scores(file: Path, lengths: Sequence[int], scores: Sequence[float], title: str) -> None:
    """Draw one model's score at each length into a .png or .svg file."""
    draw_comparison(file, {title: {"": sorted(zip(lengths, scores, strict=True))}})


def draw_comparison(file: Path, panels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]) -> None:
    """Draw score against length, a panel for each task and a curve for each model, into a .png or .svg file.

    Args:
        file: where the picture goes.
        panels: by title, the points of each model's curve; a model without a name has no entry in the legend.
    """
    heights = [score for curves in panels.values() for points in curves.values() for _, score in points]
    with panels_of(file, len(panels)) as drawn:
        for axes, (title, curves) in zip(drawn, panels.items(), strict=True):
            axes.axhline(0, color=GUIDE, linewidth=1)
            axes.axhline(1, color=GUIDE, linewidth=1)
            for index, (name, points) in enumerate(curves.items()):
                axes.plot(*zip(*points, strict=True), label=name or None, **line_style(index))
            axes.set_xscale("log")
            axes.set_xlabel("sequence length")
            axes.set_ylim(min([-0.3, *heights]) - 0.05, 1.1)
            axes.set_title(title, fontsize=10)
        drawn[0].set_ylabel("score (0 chance, 1 perfect)")
        if any(name for curves in panels.values() for name in curves):
            drawn[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


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
