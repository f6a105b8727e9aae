"""The audit as a figure: up to which length each network was right in tests, against what is proven of it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from statewise.models.table import label_of
from statewise.papers.audit import TESTED, TITLES, TRAININGS, Audited, Training
from statewise.report.figure import panels_of
from statewise.report.palette import GUIDE, LineStyle, line_style
from statewise.report.paper_figures import common_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# where networks stand that were wrong at the first tested length
_NOWHERE = 0.5
# in powers of ten: how wide the networks of one tested length lie, and how wide those of one level
_SPREAD, _OWN = 0.8, 0.13
# how far above all lengths "all lengths" is drawn, and the most powers of ten that have a label
_ABOVE, _LABELS = 1.5, 6
_INK = "#5a6472"


def write_audit(out: Path, name: str, networks: Sequence[Audited]) -> list[Path]:
    """Draw a panel for each training, as PNG and SVG: proven lengths filled, lengths of wrong sequences open.

    What is polished reaches much farther, and has a scale of its own.
    """
    models = list(dict.fromkeys(network.model for network in networks))
    trainings: list[Training] = [t for t in TRAININGS if any(network.training == t for network in networks)]
    files = [out / f"{name}.png", out / f"{name}.svg"]
    with panels_of(files[0], len(trainings), also=files[1], shared=False) as panels:
        for axes, training in zip(panels, trainings, strict=True):
            polished = training == "polished"
            top = _top([network for network in networks if (network.training == "polished") == polished])
            _ground(axes, top)
            axes.set_title(TITLES[training], fontsize=9)
            for place, model in enumerate(models):
                some = [n for n in networks if n.training == training and n.model == model]
                _draw(axes, some, (place, len(models)), _always(top))
        panels[0].set_ylabel("length of sequences")
        _explain(panels[0], models)
        common_legend(panels, "Tested length against proven length: each mark is a network")
    return files


def _top(networks: Sequence[Audited]) -> int:
    """Return the power of ten below which all lengths lie that are proven or refuted, and those of the tests."""
    known = [length for n in networks for length in (n.verdict.proven_to, n.verdict.wrong_at or 0)]
    return math.ceil(math.log10(max(TESTED[-1], *(length for length in known if math.isfinite(length)), 1)))


def _always(top: int) -> float:
    """Return where networks stand that are right at every length."""
    return 10.0 ** (top * (1 + _ABOVE / 10))


def _draw(axes: "Axes", networks: Sequence[Audited], place: tuple[int, int], always: float) -> None:
    """Draw the networks of one level: from the length that is proven to the length that is known to be wrong."""
    index, count = place
    style = line_style(index)
    by_length = {length: [n for n in networks if n.right_to == length] for length in (0, *TESTED)}
    for length, some in by_length.items():
        for number, network in enumerate(some):
            aside = _SPREAD * (index / max(1, count - 1) - 0.5)
            own = _OWN * ((number + 0.5) / len(some) - 0.5)
            across = (length or _NOWHERE) * 10 ** (aside + own)
            proven, wrong = network.verdict.proven_to, network.verdict.wrong_at
            up = always if math.isinf(proven) else proven
            if up and wrong is not None:
                axes.plot([across] * 2, [up, wrong], "-", color=style["color"], linewidth=0.5, alpha=0.5, zorder=1)
            if wrong is not None:
                axes.plot([across], [wrong], linestyle="", zorder=2, **_mark(style, filled=False))
            if up:
                axes.plot([across], [up], linestyle="", zorder=3, **_mark(style, filled=True))


def _mark(style: LineStyle, filled: bool) -> LineStyle:
    marked = style.copy()
    marked["markersize"] = 4
    marked["markerfacecolor"] = style["color"] if filled else "white"
    return marked


def _ground(axes: "Axes", top: int) -> None:
    """Draw what all panels have: both scales, and the line on which a proof reaches as far as the tests."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(_NOWHERE / 4.5, TESTED[-1] * 4.5)
    always = _always(top)
    axes.set_ylim(1, always**1.05)
    axes.plot([TESTED[0], TESTED[-1]], [TESTED[0], TESTED[-1]], "--", color=GUIDE, linewidth=1, zorder=0)
    axes.axhline(always, color=GUIDE, linewidth=0.6, zorder=0)
    axes.set_xticks([_NOWHERE, *TESTED], ["not at 10", *(f"{length:,}" for length in TESTED)], fontsize=8)
    powers = range(0, top + 1, math.ceil(top / _LABELS))
    labels = [f"{10**power:,}" if top < _LABELS else rf"$10^{{{power}}}$" for power in powers]
    axes.set_yticks([*(10.0**power for power in powers), always], [*labels, "all lengths"], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("tested length up to which every test sequence was right", fontsize=8)


def _explain(axes: "Axes", models: Sequence[str]) -> None:
    """Name the marks, without a point of any network."""
    for index, model in enumerate(models):
        axes.plot([], [], linestyle="", label=label_of(model), **_mark(line_style(index), filled=True))
    grey: LineStyle = {"color": _INK, "marker": "o", "markerfacecolor": _INK, "markersize": 4}
    axes.plot([], [], linestyle="", label="filled: proven up to this length", **grey)
    axes.plot([], [], linestyle="", label="open: a sequence known to be wrong", **_mark(grey, filled=False))
    axes.plot([], [], "--", color=GUIDE, linewidth=1, label="proven as far as tested")
