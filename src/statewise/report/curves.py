"""Score against length, on a logarithmic axis."""

from collections.abc import Sequence
from pathlib import Path

from statewise.errors import RunError, shorten


def draw_scores(file: Path, lengths: Sequence[int], scores: Sequence[float], title: str) -> None:
    """Draws one model's score at each length into a .png or .svg file."""
    if file.suffix not in (".png", ".svg"):
        raise RunError(f'"{shorten(file)}" is not a .png or .svg file; choose one of these endings')
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    axes.axhline(0, color="#9aa5b1", linewidth=1)
    axes.axhline(1, color="#9aa5b1", linewidth=1)
    axes.plot([lengths[i] for i in order], [scores[i] for i in order], "o-", color="#0b6e99")
    axes.set_xscale("log")
    axes.set_xlabel("word length")
    axes.set_ylabel("score (0 chance, 1 perfect)")
    axes.set_ylim(min(-0.3, *scores) - 0.05, 1.1)
    axes.set_title(title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
