"""Machines extracted from the networks of tracked runs, as pictures."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from statewise.errors import StatewiseError
from statewise.machines import Machine
from statewise.machines import machine as build
from statewise.models import SequenceModel
from statewise.report.charts import Point, at_point, beside, kinds
from statewise.report.entries import Entry, grouped
from statewise.report.networks import first_kept
from statewise.store import Store
from statewise.theory.extraction import Faithful, extract
from statewise.theory.network import network_of

MOST_PORTRAITS = 6
_MOST_STATES, _MOST_TRIES, _MOST_TABLE = 60, 24, 300
_SIZE, _MOST_SYMBOLS = 240, 3


@dataclass(frozen=True)
class ArrowStyle:
    """How one symbol's arrow is drawn: its colour, its text on hover, and its place among the symbols drawn."""

    colour: str
    title: str
    place: int


@dataclass(frozen=True)
class Portrait:
    """A machine that was extracted from a run's weights.

    Args:
        entry: the run whose weights they are.
        machine: what was extracted.
        faithful: "proven" equal, "tested" on sequences that were tried, or "no".
        reason: on what that rests.
        same: whether it is the machine of the task.
        picture: of its states.
        drawn: the symbols whose arrows are drawn, with their colours.
    """

    entry: Entry
    machine: Machine
    faithful: Faithful
    reason: str
    same: bool
    picture: Markup
    drawn: tuple[tuple[str, str], ...]


def draw_portraits(store: Store, entries: Iterable[Entry]) -> list[Portrait]:
    """Extract machines from tracked runs whose weights are kept: small machines first, and as many models as can be."""
    made: list[Portrait] = []
    tries = 0
    for some in _candidates(entries):
        found = first_kept(store, some[:_MOST_TRIES])
        portrait = None if found is None else _portrait(*found)
        tries += found is not None
        made += [] if portrait is None else [portrait]
        if len(made) == MOST_PORTRAITS or tries == _MOST_TRIES:
            break
    return made


def table_of_arrows(machine: Machine) -> list[tuple[str, list[str]]] | None:
    """Write a machine's whole table by names, or return None where it is too large to read."""
    if machine.delta.size > _MOST_TABLE:
        return None
    names = machine.state_names
    return [(name, [names[q] for q in row]) for name, row in zip(names, machine.delta.tolist(), strict=True)]


def _candidates(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield the runs of one model on one task after another, in turn over models, the smallest tasks first."""
    fitting = [
        entry
        for entry in entries
        if entry.tracked and entry.options.additive == "none" and 2 < (entry.subject.size or 0) <= _MOST_STATES
    ]
    fitting.sort(key=lambda entry: entry.subject.size or 0)
    by_model = grouped(fitting, lambda entry: (entry.subject.family, entry.kind)).values()
    lanes = [list(grouped(lane, lambda entry: entry.subject).values()) for lane in by_model]
    for place in range(max(map(len, lanes), default=0)):
        # each model begins with another task, so that few pictures show many machines
        yield from (lane[(place + turn) % len(lane)] for turn, lane in enumerate(lanes) if place < len(lane))


def _portrait(entry: Entry, model: SequenceModel) -> Portrait | None:
    options, task = entry.options, build(entry.options.task)
    try:
        names = (task.alphabet, task.output_names)
        found = extract(network_of(model), options.shortest, options.longest, 0, *names)
    except StatewiseError:
        # a network whose machine is too large to be found has no portrait
        return None
    if found.machine.states > _MOST_STATES:
        return None
    drawn = _symbols(found.machine)
    picture = _picture(found.machine, drawn)
    colours = tuple((found.machine.alphabet[a], colour) for a, colour in drawn.items())
    return Portrait(entry, found.machine, found.faithful, found.reason, found.machine == task, picture, colours)


def _symbols(machine: Machine) -> dict[int, str]:
    """Choose few symbols that lead from the start to every state, and a colour for each."""
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
    found, waiting = {machine.start}, [machine.start]
    while waiting:
        here = waiting.pop()
        for there in machine.delta[here, symbols].tolist():
            if there not in found:
                found.add(there)
                waiting.append(there)
    return len(found)


def _picture(machine: Machine, symbols: dict[int, str]) -> Markup:
    """Draw states on a circle, and the arrows of some symbols."""
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
            parts.append(_arrow(places[q], places[target], middle, size, ArrowStyle(colour, title, place)))
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


def _arrow(source: Point, target: Point, middle: float, size: float, style: ArrowStyle) -> Markup:
    """Draw a bent arrow between two states, or a loop outside of the circle."""
    head = max(3.5, size * 0.42)
    if source == target:
        away = math.atan2(source[1] - middle, source[0] - middle)
        # it leaves and meets the circle at right angles; each symbol's is a little wider
        aside, reach = 0.4 + 0.16 * style.place, size + 22 + 4 * style.place
        back = away + aside
        first, end = beside(source, away - aside, size), beside(source, back, size)
        left, right = beside(source, away - aside, reach), beside(source, back, reach)
        path = f"M{at_point(first)}C{at_point(left)} {at_point(right)} {at_point(end)}"
    else:
        along = math.atan2(target[1] - source[1], target[0] - source[0])
        distance = math.dist(source, target)
        # bent to its right, so that an arrow back does not lie on it, and each symbol's a little more
        bend = (0.1 + 0.1 * style.place) * distance
        centre = ((source[0] + target[0]) / 2, (source[1] + target[1]) / 2)
        over = beside(centre, along + math.pi / 2, bend)
        leaving = math.atan2(over[1] - source[1], over[0] - source[0])
        back = math.atan2(over[1] - target[1], over[0] - target[0])
        first, end = beside(source, leaving, size), beside(target, back, size)
        path = f"M{at_point(first)}Q{at_point(over)} {at_point(end)}"
    wings = [beside(end, back + turn, head) for turn in (-0.42, 0.42)]
    return Markup('<g class="arrow {}"><title>{}</title><path d="{}"/><path class="head" d="M{}L{}L{}Z"/></g>').format(
        style.colour, style.title, path, at_point(wings[0]), at_point(end), at_point(wings[1])
    )
