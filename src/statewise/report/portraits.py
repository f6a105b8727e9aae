"""Networks looked into: the machines read out of tracked runs, and the angles of a trained rotation (Figure 4)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from statewise.errors import StatewiseError
from statewise.machines import Machine
from statewise.papers.harmonics import harmonic
from statewise.report.charts import kinds
from statewise.report.entries import Run, Subject, grouped
from statewise.report.weights import kept_weights
from statewise.store import Store

MOST_PORTRAITS = 6
_MOST_STATES, _MOST_TRIES, _MOST_TABLE = 60, 24, 300
_SIZE, _MOST_SYMBOLS = 240, 3
_TURNS_OF, _MOST_CIRCLES = 10, 12
# of the circle on which angles are drawn, and how near symbols are whose labels are one
_RADIUS, _TOGETHER = 40.0, math.radians(12)

Point = tuple[float, float]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Drawn:
    """How one symbol's arrow looks: its colour, what it says on hover, and its place among the symbols drawn."""

    colour: str
    title: str
    place: int


@dataclass(frozen=True)
class Portrait:
    """A machine that was read out of a run's weights.

    Args:
        run: whose weights they are.
        machine: what was read out.
        faithful: whether network and machine are proven equal, or agree on every word that was asked.
        reason: on what that rests.
        same: whether it is the machine of the task.
        picture: of its states.
        drawn: the symbols whose arrows are drawn, with their colours.
    """

    run: Run
    machine: Machine
    faithful: bool
    reason: str
    same: bool
    picture: Markup
    drawn: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Circle:
    """One plane of a trained rotation: where it turns each symbol, and how much the readout listens to it."""

    harmonic: float
    weight: float
    picture: Markup


@dataclass(frozen=True)
class Angles:
    """Figure 4 for one run."""

    run: Run
    size: int
    circles: tuple[Circle, ...]
    planes: int


def draw_portraits(store: Store, runs: Iterable[Run]) -> list[Portrait]:
    """Reads machines out of tracked runs whose weights are kept: small machines first, and as many models as can be."""
    made: list[Portrait] = []
    tries = 0
    for some in _candidates(runs):
        found = _kept(store, some)
        portrait = None if found is None else _portrait(*found)
        tries += found is not None
        made += [] if portrait is None else [portrait]
        if len(made) == MOST_PORTRAITS or tries == _MOST_TRIES:
            break
    return made


def draw_angles(store: Store, runs: Iterable[Run]) -> Angles | None:
    """Draws the planes of the best rotation on sums mod 10, those first that the readout listens to most."""
    subject = Subject("modular addition", _TURNS_OF)
    fitting = [run for run in runs if run.level == "rotation" and run.subject == subject and run.additive == "none"]
    scored = sorted(fitting, key=lambda run: -(run.far if run.far is not None else -1.0))
    found = _kept(store, scored)
    turns = None if found is None else _turns(found[1])
    if found is None or turns is None:
        return None
    angles, volumes = turns
    order = np.argsort(-volumes)[:_MOST_CIRCLES].tolist()
    circles = [_circle(angles[plane], float(volumes[plane])) for plane in order]
    return Angles(found[0], angles.shape[1], tuple(circles), len(angles))


def _kept(store: Store, runs: Sequence[Run]) -> tuple[Run, dict[str, Any]] | None:
    """Gives the first of a few runs whose weights are kept."""
    for run in runs[:_MOST_TRIES]:
        weights = kept_weights(store, run.key)
        if weights is not None:
            return run, weights
    return None


def _candidates(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Gives the runs of one model on one task after another, in turn over models, the smallest tasks first."""
    fitting = [run for run in runs if run.tracked and run.subject.size is not None and run.additive == "none"]
    fitting = [run for run in fitting if 2 < (run.subject.size or 0) <= _MOST_STATES]
    fitting.sort(key=lambda run: run.subject.size or 0)
    lanes = list(grouped(fitting, lambda run: (run.subject.family, run.level)).values())
    lanes = [list(grouped(lane, lambda run: run.subject).values()) for lane in lanes]
    for place in range(max(map(len, lanes), default=0)):
        # each model begins with another task, so that few pictures show many machines
        yield from (lane[(place + turn) % len(lane)] for turn, lane in enumerate(lanes) if place < len(lane))


def _portrait(run: Run, weights: dict[str, Any]) -> Portrait | None:
    import torch

    from statewise.machines import machine as build
    from statewise.theory.extraction import extract
    from statewise.theory.network import network_of
    from statewise.training.assemble import build_network

    try:
        task = build(run.task)
        model = build_network(run.config, task.symbols, task.classes)
        model.load_state_dict({_plain(name): torch.from_numpy(value.copy()) for name, value in weights.items()})
        names = (task.alphabet, task.output_names)
        found = extract(network_of(model.eval()), run.config["shortest"], run.config["longest"], 0, *names)
    except (StatewiseError, RuntimeError, KeyError):
        # a file that is gone, a baseline, weights of another version: such a run has no portrait
        return None
    if found.machine.states > _MOST_STATES:
        return None
    drawn = _symbols(found.machine)
    picture = _picture(found.machine, drawn)
    colours = tuple((found.machine.alphabet[a], colour) for a, colour in drawn.items())
    return Portrait(run, found.machine, found.faithful, found.reason, found.machine == task, picture, colours)


def table_of_arrows(machine: Machine) -> list[tuple[str, list[str]]] | None:
    """Writes a machine's whole table by names, or gives None where it is too large to read."""
    if machine.delta.size > _MOST_TABLE:
        return None
    names = machine.state_names
    return [(name, [names[q] for q in row]) for name, row in zip(names, machine.delta.tolist(), strict=True)]


def _symbols(machine: Machine) -> dict[int, str]:
    """Chooses few symbols that lead from the start to every state, and a colour for each."""
    moving = [a for a in range(machine.symbols) if (machine.delta[:, a] != np.arange(machine.states)).any()]
    chosen: list[int] = []
    reached = 1
    for a in moving:
        now = _reached(machine, [*chosen, a])
        if now > reached and len(chosen) < _MOST_SYMBOLS:
            chosen.append(a)
            reached = now
    return dict(zip(chosen, kinds(len(chosen)), strict=True))


def _reached(machine: Machine, symbols: Sequence[int]) -> int:
    seen, waiting = {machine.start}, [machine.start]
    while waiting:
        here = waiting.pop()
        for there in machine.delta[here, symbols].tolist():
            if there not in seen:
                seen.add(there)
                waiting.append(there)
    return len(seen)


def _picture(machine: Machine, symbols: dict[int, str]) -> Markup:
    """Draws states on a circle, and the arrows of some symbols."""
    middle, count = _SIZE / 2, machine.states
    radius = middle - 34
    size = max(3.5, min(15.0, 0.8 * math.pi * radius / max(count, 3)))
    places = [
        (middle + radius * math.sin(2 * math.pi * q / count), middle - radius * math.cos(2 * math.pi * q / count))
        for q in range(count)
    ]
    name = f"{count} states on a circle, with the arrows of {len(symbols)} of {machine.symbols} symbols"
    parts = [Markup('<svg class="machine" viewBox="0 0 {0} {0}" role="img" aria-label="{1}">').format(_SIZE, name)]
    for place, (a, colour) in enumerate(symbols.items()):
        for q, target in enumerate(machine.delta[:, a].tolist()):
            title = f"{machine.state_names[q]} on {machine.alphabet[a]} to {machine.state_names[target]}"
            parts.append(_arrow(places[q], places[target], middle, size, Drawn(colour, title, place)))
    for q, (across, up) in enumerate(places):
        kind = "state start" if q == machine.start else "state"
        label = machine.output_names[machine.outputs[q]]
        title = Markup("<title>state {}, output {}</title>").format(machine.state_names[q], label)
        parts.append(
            Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}">{}</circle>').format(
                kind, across, up, size, title
            )
        )
        if size >= 8 and len(label) <= 3:
            parts.append(
                Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="middle" font-size="{:.1f}">{}</text>').format(
                    across, up + size * 0.32, size * 0.9, label
                )
            )
    return Markup("").join([*parts, Markup("</svg>")])


def _arrow(source: Point, target: Point, middle: float, size: float, drawn: Drawn) -> Markup:
    """Draws a bent arrow between two states, or a loop outside of the circle."""
    head = max(3.5, size * 0.42)
    if source == target:
        away = math.atan2(source[1] - middle, source[0] - middle)
        # it leaves and meets the circle at right angles; each symbol's is a little wider
        aside, reach = 0.4 + 0.16 * drawn.place, size + 22 + 4 * drawn.place
        back = away + aside
        first, end = _beside(source, away - aside, size), _beside(source, back, size)
        left, right = _beside(source, away - aside, reach), _beside(source, back, reach)
        path = f"M{_at(first)}C{_at(left)} {_at(right)} {_at(end)}"
    else:
        along = math.atan2(target[1] - source[1], target[0] - source[0])
        distance = math.dist(source, target)
        # bent to its right, so that an arrow back does not lie on it, and each symbol's a little more
        bend = (0.1 + 0.1 * drawn.place) * distance
        centre = ((source[0] + target[0]) / 2, (source[1] + target[1]) / 2)
        over = _beside(centre, along + math.pi / 2, bend)
        leaving = math.atan2(over[1] - source[1], over[0] - source[0])
        back = math.atan2(over[1] - target[1], over[0] - target[0])
        first, end = _beside(source, leaving, size), _beside(target, back, size)
        path = f"M{_at(first)}Q{_at(over)} {_at(end)}"
    wings = [_beside(end, back + turn, head) for turn in (-0.42, 0.42)]
    return Markup('<g class="arrow {}"><title>{}</title><path d="{}"/><path class="head" d="M{}L{}L{}Z"/></g>').format(
        drawn.colour, drawn.title, path, _at(wings[0]), _at(end), _at(wings[1])
    )


def _beside(point: Point, angle: float, distance: float) -> Point:
    return point[0] + distance * math.cos(angle), point[1] + distance * math.sin(angle)


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _plain(name: str) -> str:
    return name.removeprefix("model.")


def _turns(weights: dict[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Gives angles by plane and symbol, and the size of the readout's weights by plane."""
    named = {_plain(name): np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    try:
        angles, readout = named["transition.weight"], named["readout"]
    except KeyError:
        return None
    if "embeddings" in named:
        angles = angles @ named["embeddings"].T
    return angles, np.linalg.norm(readout.reshape(len(readout), -1, 2), axis=(0, 2))


def _circle(angles: np.ndarray, volume: float) -> Circle:
    size = len(angles)
    groups = _near_each_other(angles)
    parts = [Markup('<circle class="ring" cx="60" cy="60" r="{}"/>').format(_RADIUS)]
    for angle in angles.tolist():
        dot = _beside((60.0, 60.0), -angle, _RADIUS)
        parts.append(Markup('<path class="spoke" d="M60 60L{}"/>').format(_at(dot)))
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
    return Circle(harmonic(float(angles[1]), size), volume, Markup("").join([opening, *parts, Markup("</svg>")]))


def _near_each_other(angles: np.ndarray) -> list[list[int]]:
    """Groups the symbols whose places on the circle nearly coincide, around the circle."""
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
    """Writes the names of symbols outside of their dots, and tells where they lie."""
    middle = complex(np.exp(-1j * angles[list(some)]).sum())
    across, up = _beside((60.0, 60.0), math.atan2(middle.imag, middle.real), _RADIUS + 7)
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
