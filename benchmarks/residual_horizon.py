"""How far is a network right, for a given distance of its logits from one-hot answers?

Full networks are trained on 2 to 10 symbols and polished; then every weight is moved by a relative amount, from 3 % to
1e-13. For each such network the residual, the proven horizon, and the shortest wrong word that a search finds are
recorded: powers x u^n of words u of one or two symbols (by repeated squaring, up to 10^10 symbols), and random words
(up to a million), in float64. Records are appended to results/residual-horizon.jsonl, and a task that stands there is
not run again; docs/residual-horizon.svg is drawn from all of them.
Usage: python benchmarks/residual_horizon.py [TASK ...]
"""

import itertools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

import statewise as sw
from statewise.errors import RunError
from statewise.machines import Machine, access_words, minimise
from statewise.models import StateTracker
from statewise.randomness import stream
from statewise.report.figure import figure_of
from statewise.report.palette import GUIDE, light_kinds
from statewise.runs import provenance
from statewise.tasks import Lengths, Task, legal_moves
from statewise.theory import Network, network_of, polish_tracker
from statewise.theory.certify import prove_horizon

ROOT = Path(__file__).parents[1]
RESULTS, FIGURE = ROOT / "results" / "residual-horizon.jsonl", ROOT / "docs" / "residual-horizon.svg"
SEED, LONGEST_POWER, LONGEST_RANDOM = 30, 10**10, 10**6
TASKS = [
    "modular_addition(5)",
    f"random_machine(10, seed={SEED}, kind=map)",
    "symmetric(3)",
    "modular_arithmetic(3)",
]
# relative: half a decade apart; 0 is the polished network itself
AMOUNTS = [0.0, *(10 ** (-power / 2) for power in range(26, 2, -1))]
# sequences that the residual is measured on, and random words that are read to the end
SEQUENCES, WORDS = 2_000, 4
# powers n grow by this factor until one is wrong; then n is bisected
_RATIO, _LOOP = 1.1, 2
_TITLES = {TASKS[1]: "random map of 10 states"}


@dataclass(frozen=True, eq=False)
class Legal:
    """The moves of a machine along words that a task draws; the last state stands for all other words."""

    machine: Machine
    moves: Int[np.ndarray, "state symbol"]

    @classmethod
    def of(cls, task: Task) -> "Legal":
        """Read the moves off a task."""
        machine, states = task.machine, np.arange(task.machine.states)
        reached = np.stack([task.follow(states, np.array([symbol])) for symbol in range(machine.symbols)], axis=1)
        dead = np.full((1, machine.symbols), machine.states)
        return cls(machine, np.concatenate([np.where(reached < 0, machine.states, reached), dead]))

    def wrong(
        self, logits: Float[np.ndarray, "*word classes"], states: Int[np.ndarray, "*word"]
    ) -> Bool[np.ndarray, "*word"]:
        """Say which words are answered wrong; those that are never drawn are not."""
        right = np.append(self.machine.outputs, -1)[states]
        return (logits.argmax(axis=-1) != right) & (right >= 0)


def residuals(network: Network, task: Task) -> Float[np.ndarray, " word"]:
    """Return |U h_w - one-hot answer| for sequences of the lengths that polish solves for."""
    generator = stream(SEED, "residual")
    batch = Task(task.machine, Lengths(2, 8), "final").draw(generator, generator.integers(2, 9, SEQUENCES))
    h = np.broadcast_to(network.initial, (SEQUENCES, network.hidden))
    for t in range(batch.tokens.shape[1]):
        moved = np.einsum("bij,bj->bi", network.matrices[batch.tokens[:, t]], h)
        h = np.where((batch.lengths > t)[:, None], moved, h)
    return np.linalg.norm(h @ network.readout.T - np.eye(network.classes)[batch.finals], axis=1)


def moved(network: Network, amount: float, generator: np.random.Generator) -> Network:
    """Move every weight by a random amount, relative to the root mean square of its tensor."""
    if amount == 0:
        return network
    parts = [
        part + amount * np.sqrt(np.mean(part**2)) * generator.standard_normal(part.shape)
        for part in (network.matrices, network.initial, network.readout)
    ]
    return Network(*parts)


def fail_on_powers(network: Network, legal: Legal) -> int | None:
    """Return the length of the shortest wrong word x u^n that is found; None if all n up to the limit are right."""
    words = access_words(legal.machine)
    starts = np.array(sorted(words))
    prefixes = np.stack([network.states(np.array([words[q]], dtype=np.int64).reshape(1, -1))[0] for q in starts])
    before = np.array([len(words[q]) for q in starts])
    lengths = []
    for size in range(1, _LOOP + 1):
        loops = list(itertools.product(range(network.symbols), repeat=size))
        squares, moves = _squares(network, legal, loops)

        def wrong_at(n: int, pairs: Any = ..., squares: Any = squares, moves: Any = moves) -> Bool[np.ndarray, "..."]:
            h = np.broadcast_to(prefixes, (len(squares[0]), *prefixes.shape))
            q = np.broadcast_to(starts, h.shape[:2])
            for bit in range(n.bit_length()):
                if n >> bit & 1:
                    h = h @ squares[bit].transpose(0, 2, 1)
                    h = h / np.linalg.norm(h, axis=2, keepdims=True)
                    q = np.take_along_axis(moves[bit], q, axis=1)
            return legal.wrong(h @ network.readout.T, q)[pairs]

        # words shorter than two symbols are not trained
        low, high = 0, 2
        while high * size <= LONGEST_POWER and not wrong_at(high).any():
            low, high = high, max(high + 1, round(_RATIO * high))
        if high * size > LONGEST_POWER:
            continue
        for pair in zip(*np.nonzero(wrong_at(high)), strict=True):
            right, wrong = low, high
            while wrong - right > 1:
                middle = (right + wrong) // 2
                right, wrong = (right, middle) if wrong_at(middle, pair) else (middle, wrong)
            lengths.append(int(before[pair[1]]) + wrong * size)
    return min(lengths, default=None)


def _squares(network: Network, legal: Legal, loops: list[tuple[int, ...]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return u, u^2, u^4, ... of every loop, as matrices and as maps of states."""
    matrix = np.broadcast_to(np.eye(network.hidden), (len(loops), network.hidden, network.hidden))
    move = np.broadcast_to(np.arange(len(legal.moves)), (len(loops), len(legal.moves)))
    for place in range(len(loops[0])):
        symbols = np.array([loop[place] for loop in loops])
        matrix, move = network.matrices[symbols] @ matrix, legal.moves[move, symbols[:, None]]
    matrices, moves = [matrix], [move]
    for _ in range(LONGEST_POWER.bit_length()):
        square = matrices[-1] @ matrices[-1]
        matrices.append(square / np.linalg.norm(square, axis=(1, 2), keepdims=True))
        moves.append(np.take_along_axis(moves[-1], moves[-1], axis=1))
    return matrices, moves


def fail_on_random(networks: list[Network], legal: Legal) -> list[int | None]:
    """Return, for each network, the length at which it first answers one of some random words wrong."""
    choices = [np.flatnonzero(row < legal.machine.states) for row in legal.moves[:-1]]
    generator = stream(SEED, "random words")
    failed: list[int | None] = [None] * len(networks)
    active = np.arange(len(networks))
    matrices, readout = np.stack([n.matrices for n in networks]), np.stack([n.readout for n in networks])
    h = np.repeat(np.stack([n.initial for n in networks])[:, None, :, None], WORDS, axis=1)
    q = np.full(WORDS, legal.machine.start)
    for length in range(1, LONGEST_RANDOM + 1):
        draws = generator.random(WORDS).tolist()
        symbols = [
            choices[state][int(draw * len(choices[state]))] for state, draw in zip(q.tolist(), draws, strict=True)
        ]
        h, q = matrices[:, symbols] @ h, legal.moves[q, symbols]
        if length % 16 == 0:
            h = h / np.linalg.norm(h, axis=2, keepdims=True)
        if length < 2:
            continue
        wrong = legal.wrong((readout[:, None] @ h)[..., 0], q).any(axis=1)
        if wrong.any():
            for place in active[wrong].tolist():
                failed[place] = length
            active, h, matrices, readout = (part[~wrong] for part in (active, h, matrices, readout))
            if not len(active):
                break
    return failed


def measure(name: str) -> list[dict[str, Any]]:
    """Train, polish, move, and measure."""
    run = sw.train(config={"task": name, "model": "full", "seed": SEED})
    assert isinstance(run.model, StateTracker)
    # values, so that the residual is the distance from one-hot answers
    found = polish_tracker(run.model, run.task, objective="values")
    polished, legal, minimal = network_of(found.model), Legal.of(run.task), minimise(run.machine)
    networks = [moved(polished, amount, stream(SEED, name, amount)) for amount in AMOUNTS]
    random = fail_on_random(networks, legal)
    records = []
    for amount, network, length in zip(AMOUNTS, networks, random, strict=True):
        each, horizon = residuals(network, run.task), prove_horizon(network, minimal, legal=legal_moves(minimal))
        record = {
            "task": name,
            "hidden": network.hidden,
            "moved": amount,
            "residual": float(np.sqrt(np.mean(each**2))),
            "largest": float(each.max()),
            "proven": None if horizon is None else horizon.length,
            "wrong_power": fail_on_powers(network, legal),
            "wrong_random": length,
            "tried_power": LONGEST_POWER,
            "tried_random": LONGEST_RANDOM,
        }
        if horizon is not None:
            record |= {"rho": horizon.rho, "kappa": horizon.kappa, "radius": horizon.radius}
        records.append(record | asdict(provenance()))
        print(json.dumps({k: record[k] for k in list(record)[:8]}), file=sys.stderr, flush=True)
    return records


def draw_residual_horizon(file: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Draw the proven horizon and the lengths of wrong words against the residual, a colour for each task."""
    records = list(records)
    if not records:
        raise RunError("there are no records of residuals; run benchmarks/residual_horizon.py first")
    tasks = [task for task in TASKS if any(record["task"] == task for record in records)]
    ends = np.array([min(r["residual"] for r in records), max(r["residual"] for r in records)])
    with figure_of(file) as axes:
        for kind, (label, style) in _KINDS.items():
            axes.plot([], [], color="#444444", label=label, **style)
            for colour, task in zip(light_kinds(), tasks, strict=False):
                points = sorted((r["residual"], r[kind]) for r in records if r["task"] == task and r[kind] is not None)
                if points:
                    axes.plot(*zip(*points, strict=True), color=colour, **style)
        axes.plot(ends, 1 / ends, "--", color=GUIDE, linewidth=1, zorder=0, label="1 / residual")
        for colour, task in zip(light_kinds(), tasks, strict=False):
            axes.plot([], [], "s", color=colour, label=_TITLES.get(task, task))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("residual (root mean square, 2 to 8 symbols)")
        axes.set_ylabel("sequence length")
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "proven": ("proven horizon", {"linestyle": "-", "linewidth": 1.4}),
    "wrong_power": ("wrong power $xu^n$", {"linestyle": "", "marker": "o", "markersize": 4}),
    "wrong_random": (
        "wrong random word",
        {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"},
    ),
}


def main(tasks: list[str]) -> None:
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {json.loads(line)["task"] for line in lines}
    for task in tasks or TASKS:
        if task not in done:
            records = measure(task)
            with RESULTS.open("a") as stream_out:
                stream_out.writelines(json.dumps(record) + "\n" for record in records)
    draw_residual_horizon(FIGURE, [json.loads(line) for line in RESULTS.read_text().splitlines()])


if __name__ == "__main__":
    main(sys.argv[1:])
