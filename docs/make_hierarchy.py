"""Draw the pictures of docs/hierarchy.md from compiled machines: docs/hierarchy-*.svg."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import statewise as sw
from statewise.report.figure import figure_of, panels_of
from statewise.report.palette import GUIDE, light_kinds

DOCS = Path(__file__).parent
MATRICES, MACHINE, PLANE, ORDER = (DOCS / f"hierarchy-{name}.svg" for name in ("matrices", "machine", "plane", "order"))
# a transition of each level that reads one of two symbols, all of hidden size 6
LEVELS = ("full", "cp(2)", "block(2)", "rotation", "diagonal", "positive")
HIDDEN, TURN = 6, 5
# of each rung of the last picture: who tracks it, by Theorems H and G and Proposition 1
TRACKS = {
    "seen a 1": ("tracks", "tracks", "tracks", "cannot", "tracks", "tracks"),
    "parity": ("tracks", "tracks", "tracks", "tracks", "tracks", "cannot"),
    "sums mod 5": ("tracks", "larger R", "tracks", "tracks", "cannot", "cannot"),
    "S₃": ("tracks", "larger R", "tracks", "cannot", "cannot", "cannot"),
    "S₅": ("tracks", "larger R", "blocks of 4", "cannot", "cannot", "cannot"),
}


def matrix_of(level: str) -> Tensor:
    """Return A(x) of one symbol, as drawn at random."""
    net = sw.StateTracker(2, 2, HIDDEN, level, generator=torch.Generator().manual_seed(4))
    return _dense(net, 0)


def compiled_matrix(level: str) -> Tensor:
    """Return A(1) of the weights that track sums modulo 6."""
    return _dense(sw.compile("modular_addition(6)", level=level, run=100).model, 1)


def _dense(net: sw.StateTracker, symbol: int) -> Tensor:
    transition = net.transition
    x = torch.eye(transition.input_size, dtype=net.initial_state.dtype)[symbol]
    matrix = transition.dense(transition.coefficients(x)).detach()
    return matrix / matrix.abs().max()


def draw_matrices(file: Path, matrices: dict[str, Tensor | None]) -> None:
    """Draw what A(x) looks like at each level, as a heat map."""
    with panels_of(file, len(matrices), 2) as panels:
        for axes, (level, matrix) in zip(panels, matrices.items(), strict=True):
            axes.set_title(level, fontsize=24)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[["left", "bottom"]].set_visible(False)
            axes.set_xlim(-0.5, HIDDEN - 0.5)
            axes.set_ylim(HIDDEN - 0.5, -0.5)
            axes.set_aspect("equal")
            if matrix is None:
                axes.annotate("cannot", (2.5, 2.5), ha="center", va="center", fontsize=24, color="#4a5563")
                continue
            size = HIDDEN / len(matrix)
            for (i, j), entry in np.ndenumerate(matrix.numpy()):
                axes.add_patch(_square(j * size - 0.5, i * size - 0.5, size, diverging(float(entry))))


def diverging(entry: float) -> tuple[float, ...]:
    """Return the colour of an entry from -1 to 1: red, nearly white, blue."""
    from matplotlib import colormaps

    return tuple(colormaps["RdBu"](0.5 + 0.5 * entry))


def draw_plane(file: Path) -> None:
    """Draw the hidden states of modular_addition(5) under one rotation, and the sectors of its answers."""
    net = sw.compile(f"modular_addition({TURN})", level="rotation", run=100).model
    transition, h = net.transition, net.initial_state.detach()
    inputs = torch.eye(TURN, dtype=h.dtype)
    with panels_of(file, 2) as panels:
        for axes, symbol in zip(panels, (1, 2), strict=True):
            states = [h]
            for _ in range(TURN):
                states.append(transition.act(transition.coefficients(inputs[symbol]), states[-1]).detach())
            scale = float(h.norm())
            axes.add_patch(_circle())
            for place, (here, there) in enumerate(pairwise(states)):
                start, end = ((state / scale).tolist() for state in (here, there))
                axes.annotate(
                    "",
                    end,
                    start,
                    arrowprops={"arrowstyle": "->", "color": GUIDE, "shrinkA": 15, "shrinkB": 15, "linewidth": 1.5},
                )
                axes.plot(*start, "o", color=light_kinds()[place * symbol % TURN], markersize=26)
                axes.annotate(str(place * symbol % TURN), start, color="white", ha="center", va="center", fontsize=14)
            axes.set_title(f"symbol {symbol}, again and again", fontsize=14)
            axes.set_aspect("equal")
            axes.set_axis_off()
            axes.set_xlim(-1.25, 1.25)
            axes.set_ylim(-1.25, 1.25)


def draw_order(file: Path) -> None:
    """Draw which level tracks what, as a table of marks."""
    marks = {"tracks": ("#d9ead9", "✓"), "cannot": ("#f6dcd8", "✗")}
    with figure_of(file) as axes:
        for row, said in enumerate(TRACKS.values()):
            for column, word in enumerate(said):
                colour, text = marks.get(word, ("#f3ecd2", word))
                axes.add_patch(_cell(column, row, colour))
                axes.annotate(text, (column, row), ha="center", va="center", fontsize=8 if len(text) > 1 else 12)
        axes.set_xticks(
            range(len(LEVELS)), [level.replace("(2)", "(R)", 1) if "cp" in level else level for level in LEVELS]
        )
        axes.set_yticks(range(len(TRACKS)), list(TRACKS))
        axes.set_xlim(-0.5, len(LEVELS) - 0.5)
        axes.set_ylim(len(TRACKS) - 0.5, -0.5)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)


def _circle():
    from matplotlib.patches import Circle

    return Circle((0, 0), 1, fill=False, color=GUIDE, linestyle=":")


def _square(left: float, top: float, size: float, colour: tuple[float, ...]):
    from matplotlib.patches import Rectangle

    return Rectangle((left + 0.03, top + 0.03), size - 0.06, size - 0.06, facecolor=colour, edgecolor="#d5dae0")


def _cell(column: int, row: int, colour: str):
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, color=colour, linewidth=0)


if __name__ == "__main__":
    draw_matrices(MATRICES, {level: matrix_of(level) for level in LEVELS})
    # the other two: Theorem H
    compiled = {level: compiled_matrix(level) for level in ("full", "cp", "block(2)", "rotation")}
    draw_matrices(MACHINE, {**compiled, "diagonal": None, "positive": None})
    draw_plane(PLANE)
    draw_order(ORDER)
