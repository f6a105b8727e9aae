"""The angles of a trained rotation, a circle for each plane (Figure 4)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from statewise.papers.rotations import angles_of, harmonic
from statewise.report.charts import at_point, beside
from statewise.report.entries import Entry, Subject
from statewise.report.networks import first_kept
from statewise.store import Store

_MODULUS, _MOST_CIRCLES, _MOST_TRIES = 10, 12, 24
# of the circle on which angles are drawn, and how near symbols are whose labels are one
_RADIUS, _TOGETHER = 40.0, math.radians(12)

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Circle:
    """One plane of a trained rotation: where it turns each symbol, and the norm of the readout's weights on it."""

    harmonic: float
    weight: float
    picture: Markup


@dataclass(frozen=True)
class AngleFigure:
    """Figure 4 for one run.

    Args:
        entry: the run.
        size: the modulus.
        circles: the planes that are drawn.
        planes: how many there are.
    """

    entry: Entry
    size: int
    circles: tuple[Circle, ...]
    planes: int


def draw_angles(store: Store, entries: Iterable[Entry]) -> AngleFigure | None:
    """Draw the planes of the best rotation on sums mod 10, those first on which the readout's weights are largest."""
    subject = Subject("modular addition", _MODULUS)
    fitting = [
        entry
        for entry in entries
        if entry.kind == "rotation" and entry.subject == subject and entry.options.additive == "none"
    ]
    scored = sorted(fitting, key=lambda entry: -(entry.score if entry.score is not None else -1.0))
    found = first_kept(store, scored[:_MOST_TRIES])
    angles = None if found is None else angles_of(found[1])
    if found is None or angles is None:
        return None
    order = angles.heaviest_first()[:_MOST_CIRCLES]
    circles = [_circle(angles.by_plane[plane], float(angles.weights[plane])) for plane in order]
    return AngleFigure(found[0], angles.by_plane.shape[1], tuple(circles), len(angles.by_plane))


def _circle(angles: np.ndarray, weight: float) -> Circle:
    size = len(angles)
    groups = _near_each_other(angles)
    parts = [Markup('<circle class="ring" cx="60" cy="60" r="{}"/>').format(_RADIUS)]
    for angle in angles.tolist():
        dot = beside((60.0, 60.0), -angle, _RADIUS)
        parts.append(Markup('<path class="spoke" d="M60 60L{}"/>').format(at_point(dot)))
        parts.append(Markup('<circle class="dot c0" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(*dot))
    taken: list[Box] = []
    for some in groups:
        label, box = _label(angles, some)
        # a label that would lie on another is left out; its dots stay
        if not any(_overlap(box, other) for other in taken):
            taken.append(box)
            parts.append(label)
    name = f"Angles of {size} symbols, together: {', '.join(' '.join(map(str, some)) for some in groups)}"
    opening = Markup('<svg class="machine" viewBox="-12 0 144 120" role="img" aria-label="{}">').format(name)
    return Circle(harmonic(float(angles[1]), size), weight, Markup("").join([opening, *parts, Markup("</svg>")]))


def _near_each_other(angles: np.ndarray) -> list[list[int]]:
    """Group the symbols whose places on the circle nearly coincide, around the circle."""
    places = np.mod(angles, 2 * math.pi)
    order = np.argsort(places, kind="stable")
    gaps = np.diff(places[order], prepend=places[order[-1]] - 2 * math.pi)
    # a group must not be cut where the circle begins
    order = np.roll(order, -int(np.argmax(gaps))).tolist()
    groups: list[list[int]] = []
    for a in order:
        if groups and (places[a] - places[groups[-1][0]]) % (2 * math.pi) < _TOGETHER:
            groups[-1].append(a)
        else:
            groups.append([a])
    return [sorted(some) for some in groups]


def _label(angles: np.ndarray, some: Sequence[int]) -> tuple[Markup, Box]:
    """Write the names of symbols outside of their dots, and return the box that they take."""
    middle = complex(np.exp(-1j * angles[list(some)]).sum())
    across, up = beside((60.0, 60.0), math.atan2(middle.imag, middle.real), _RADIUS + 7)
    # beside the circle a label begins at its dots, above and below it stands in the middle
    side = (across - 60) / (_RADIUS + 7)
    anchor = "start" if side > 0.5 else "end" if side < -0.5 else "middle"
    text = " ".join(map(str, some[:2] if len(some) > 3 else some)) + (" …" if len(some) > 3 else "")
    width = 4.6 * len(text)
    left = across - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    # texts stand on their line: those above the circle keep clear of it, those below hang
    line = up + 3 + 3 * (up - 60) / (_RADIUS + 7)
    made = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="8"><title>{}</title>{}</text>').format(
        across, line, anchor, " ".join(map(str, some)), text
    )
    return made, (left, line - 6, left + width, line)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
