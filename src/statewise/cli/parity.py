"""`statewise demo-parity`: Proposition 3, drawn ten thousand times."""

from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show

_SIZES = range(1, 11)


def demo_parity(
    draws: Annotated[int, typer.Option(help="Networks per hidden size.")] = 10_000,
    length: Annotated[int, typer.Option(help="The length at which one network is followed bit by bit.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the frequencies into this .png or .svg.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn parity from two examples with a frozen random diagonal, at every length."""
    from statewise.errors import RunError
    from statewise.report.figure import check_figure_file
    from statewise.theory.frozen_parity import frequency, track_parity

    if length < 1:
        raise RunError(f"length is {length}; expected at least 1; correct it")
    if plot is not None:
        check_figure_file(plot)
    frequencies = [frequency(hidden, draws, seed) for hidden in _SIZES]
    right, words = track_parity(8, length, 4, seed)
    if plot is not None:
        from statewise.report.parity_figure import draw_frequencies

        draw_frequencies(plot, frequencies)
    rows = [
        {
            "hidden": f.hidden,
            "draws": f.draws,
            "learned": f.learned,
            "predicted": f.predicted,
            "low": f.low,
            "high": f.high,
        }
        for f in frequencies
    ]
    result: dict[str, Any] = {"rows": rows, "length": length, "words": words, "correct": right}
    lines = [("H", "learned  95 % interval      1 - 2^-H")]
    lines += [
        (str(f.hidden), f"{f.learned / f.draws:.4f}   {f.low:.4f} to {f.high:.4f}   {f.predicted:.4f}")
        for f in frequencies
    ]
    lines += [("", ""), ("followed", f"one network of size 8 over {words} words of {length:,} bits: {right} right")]
    show(result, json, lines + ([("plot", str(plot))] if plot else []))
