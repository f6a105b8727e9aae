"""What of the paper is computed rather than trained: parameters, propositions, parity, and what weights show."""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from statewise.errors import CompileError, unknown_name
from statewise.expressions import Call, parse
from statewise.machines import Machine
from statewise.machines import machine as build
from statewise.models.levels import build_transition
from statewise.papers.harmonics import harmonic
from statewise.papers.paper import Paper
from statewise.randomness import derive
from statewise.recurrence import unroll
from statewise.theory.certify.verdict import certify
from statewise.theory.compile import compile_machine
from statewise.theory.frozen_parity import EXAMPLES, fit_readouts, frequency, learned
from statewise.theory.network import network_of
from statewise.transitions import Additive, Diagonal, Transition

_ANY = [
    "modular_addition(5)",
    "modular_arithmetic(5)",
    "symmetric(4)",
    "alternating(5, generators=standard)",
    "random_machine(10, seed=0, kind=permutation)",
    "random_machine(10, seed=0, kind=map)",
    "tomita(3)",
    "flip_flop(3)",
]
_ABELIAN = ["modular_addition(3)", "modular_addition(10)", "modular_addition(50)", "cyclic(4)*cyclic(6)"]
_NOT_ABELIAN = ["symmetric(3)", "dihedral(4)", "quaternion", "alternating(4)"]
_SIZES = range(1, 11)
_DRAWS = {"quick": 10_000, "paper": 100_000}
_LENGTHS = (10, 20, 50, 100, 200, 500, 1_000)
_FROZEN = {"quick": 20, "paper": 200}
_FROZEN_HIDDEN, _FROZEN_WORDS, _TEST_WORDS = 64, 200, 128


def facts_of(paper: Paper, name: str, preset: str) -> list[dict[str, Any]]:
    """Gives the rows of what is computed."""
    paper.runs(name, preset)
    if name == "parameters":
        return parameters(paper, paper.protocol("hidden"))
    if name == "parity":
        return parity(_DRAWS[preset])
    if name == "propositions":
        return propositions()
    raise unknown_name("reproduction without runs", name, paper.data["facts"])


def parameters(paper: Paper, size: int) -> list[dict[str, Any]]:
    """Counts the recurrent parameters of each level at H = D = size, beside the paper's formulas."""
    rows = []
    for spec in paper.data["presets"]["paper"]["levels"]:
        parsed = parse(spec)
        assert isinstance(parsed, Call)
        argument = int(parsed.args[0]) if parsed.args else 0
        formula, expected = _formula(parsed.name, argument, size)
        # shapes are enough: nothing is allocated
        with torch.device("meta"):
            ours = sum(p.numel() for p in build_transition(spec, size, size).parameters())
        rows.append(
            {
                "model": spec,
                "hidden": size,
                "formula": formula,
                "paper": expected,
                "ours": ours,
                "holds": ours == expected,
            }
        )
    return rows


def _formula(level: str, argument: int, size: int) -> tuple[str, int]:
    h = d = size
    return {
        "full": ("H^2 D", h * h * d),
        "cp": ("R (2H + D)", argument * (2 * h + d)),
        "block": ("b^2 D B", argument * argument * d * (h // max(1, argument))),
        "rotation": ("(H/2) D", h // 2 * d),
        "diagonal": ("H D", h * d),
        "positive": ("H D", h * d),
    }[level]


def propositions() -> list[dict[str, Any]]:
    """Checks Propositions 1 to 3 on machines: by compiling and certifying, and by trying all signs."""
    rows = [_tracked(task) for task in _ANY]
    rows += [_turned(task) for task in _ABELIAN]
    rows += [_not_turned(task) for task in _NOT_ABELIAN]
    return rows + [_all_signs(hidden) for hidden in _SIZES]


def _tracked(task: str) -> dict[str, Any]:
    machine = build(task)
    compiled = compile_machine(machine, "full")
    verdict = certify(network_of(compiled.model), machine, seconds=0.0)
    claim = f"one-hot states, hidden size {len(compiled.model.initial_state)}, are right on all words"
    return _row(1, task, claim, verdict.status == "proven", f"{verdict.status}: {verdict.reason}")


def _turned(task: str) -> dict[str, Any]:
    machine = build(task)
    compiled = compile_machine(machine, "rotation", torch.float64)
    verdict = certify(network_of(compiled.model), machine, seconds=0.0)
    horizon = math.inf if verdict.status == "proven" else verdict.horizon or 0
    claim = f"an Abelian group: {compiled.how}, in float64"
    how = "right on all words" if horizon == math.inf else f"proven right on all words of up to {horizon:,} symbols"
    return _row(2, task, claim, horizon >= 10_000, how)


def _not_turned(task: str) -> dict[str, Any]:
    machine = build(task)
    try:
        compile_machine(machine, "rotation")
        refused = False
    except CompileError:
        refused = True
    words = _order_matters(machine)
    shown = "" if words is None else f"{' '.join(words[0])} and {' '.join(words[1])} differ, and rotations commute"
    return _row(2, task, "a group that is not Abelian: no rotations track it", refused and words is not None, shown)


def _order_matters(machine: Machine) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Finds two symbols whose order changes the answer."""
    names = machine.alphabet
    for a, b in product(range(machine.symbols), repeat=2):
        one, other = machine.track(np.array([[a, b], [b, a]]))[:, -1]
        if machine.outputs[one] != machine.outputs[other]:
            return (names[a], names[b]), (names[b], names[a])
    return None


def _all_signs(hidden: int) -> dict[str, Any]:
    signs = torch.tensor(list(product([-1.0, 1.0], repeat=hidden)), dtype=torch.float64)
    right = int(learned(signs, fit_readouts(signs)).sum())
    claim = f"of all {2**hidden:,} frozen diagonals of signs, all but one learn parity from two examples"
    return _row(3, "parity", claim, right == 2**hidden - 1, f"H = {hidden}: {right:,} learn it, at every length")


def _row(proposition: int, task: str, claim: str, holds: bool, how: str) -> dict[str, Any]:
    return {"proposition": proposition, "machine": task, "claim": claim, "holds": holds, "how": how}


def parity(draws: int, seed: int = 0) -> list[dict[str, Any]]:
    """Draws frozen networks, and counts how often two examples suffice, beside 1 - 2^-H."""
    found = [frequency(hidden, draws, seed) for hidden in _SIZES]
    return [
        {
            "hidden": f.hidden,
            "draws": f.draws,
            "learned": f.learned,
            "frequency": f.learned / f.draws,
            "low": f.low,
            "high": f.high,
            "paper": f.predicted,
            "inside": f.low <= f.predicted <= f.high,
        }
        for f in found
    ]


def frozen_parity(preset: str, seed: int = 0) -> list[dict[str, Any]]:
    """Follows frozen random diagonals over growing lengths, with and without additive terms (Figure 3, right).

    Diagonals are of random signs, as in Proposition 3; an offset is drawn once, of variance 1 in each entry. The
    readout is the least-squares one of least norm, on the two examples of Proposition 3 or on words of the training
    lengths.
    """
    rows = []
    for terms in ("none", "constant", "input"):
        for examples, scores in _follow(terms, _FROZEN[preset], derive(seed, "frozen")).items():
            for place, length in enumerate(_LENGTHS):
                low, middle, high = np.quantile(scores[place], [0.25, 0.5, 0.75])
                numbers = {"score": float(middle), "low": float(low), "high": float(high)}
                which = {"additive": terms, "examples": examples, "length": length}
                rows.append({**which, "draws": scores.shape[1], **numbers})
    return rows


def _follow(terms: str, draws: int, seed: int) -> dict[int, Float[np.ndarray, "length draw"]]:
    """Gives the scores of networks at each length, by how many examples their readouts were fitted to.

    Channels of a diagonal do not see each other, so that all networks lie side by side in one.
    """
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (draws * _FROZEN_HIDDEN,), generator=generator).double() * 2 - 1
    linear = Diagonal(1, len(signs), generator=generator).double()
    network: Transition = linear
    if terms != "none":
        network = Additive(linear, "constant" if terms == "constant" else "input", generator)
    with torch.no_grad():
        linear.weight.copy_(signs.view_as(linear.weight))
        if isinstance(network, Additive):
            network.offset.normal_(generator=generator)
        fitted = {len(words): _fit(network, words, lengths) for words, lengths in _examples(generator)}
        h = torch.ones(_TEST_WORDS, len(signs), dtype=torch.float64)
        total = torch.zeros(_TEST_WORDS, 1, dtype=torch.int64)
        scores: dict[int, list[np.ndarray]] = {examples: [] for examples in fitted}
        for length in range(1, max(_LENGTHS) + 1):
            bits = torch.randint(0, 2, (_TEST_WORDS, 1), generator=generator)
            _, h = unroll(network, _signed(bits).unsqueeze(-1), h)
            total += bits
            if length in _LENGTHS:
                for examples, readouts in fitted.items():
                    answers = torch.einsum("wdh,dh->wd", h.unflatten(1, (draws, -1)), readouts)
                    right = ((answers > 0) == (_parities(total) > 0)).double().mean(dim=0)
                    scores[examples].append((2 * right - 1).numpy())
    return {examples: np.stack(found) for examples, found in scores.items()}


def _fit(network: Transition, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Fits a readout of each network to the parities of words, in closed form."""
    start = torch.ones(len(words), network.hidden_size, dtype=torch.float64)
    _, ends = unroll(network, _signed(words).unsqueeze(-1), start, lengths)
    states = ends.unflatten(1, (-1, _FROZEN_HIDDEN)).transpose(0, 1)
    return (torch.linalg.pinv(states) @ _parities(words)).squeeze(-1)


def _examples(generator: torch.Generator) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Gives words and lengths: the two examples, and as many as a training set has."""
    longest = max(len(bits) for bits, _ in EXAMPLES)
    two = torch.tensor([[*bits, *[0] * (longest - len(bits))] for bits, _ in EXAMPLES])
    lengths = torch.randint(2, 11, (_FROZEN_WORDS,), generator=generator)
    words = torch.randint(0, 2, (_FROZEN_WORDS, 10), generator=generator)
    words[torch.arange(10) >= lengths[:, None]] = 0
    return [(two, torch.tensor([len(bits) for bits, _ in EXAMPLES])), (words, lengths)]


def _signed(bits: torch.Tensor) -> torch.Tensor:
    return (1 - 2 * bits).double()


def _parities(bits: torch.Tensor) -> torch.Tensor:
    return (1 - 2 * (bits.sum(dim=1, keepdim=True) % 2)).double()


def planes(weights: Iterable[tuple[int, Mapping[str, np.ndarray]]], m: int) -> list[dict[str, Any]]:
    """Lists the planes of trained rotations, those that the readout weighs most first (Figure 4).

    The harmonic of a plane is the angle of symbol 1 in parts of 2 pi / m, from -m/2 to m/2: a whole number for a
    character of Z_m.

    Args:
        weights: the seed and the weights of each run.
        m: the modulus.
    """
    rows = []
    for seed, named in weights:
        short = {name.removeprefix("model."): value for name, value in named.items()}
        angles, readout = short["transition.weight"][:, 1], short["readout"]
        sizes = np.linalg.norm(readout.reshape(len(readout), -1, 2), axis=(0, 2))
        for place, plane in enumerate(np.argsort(-sizes).tolist()):
            found = harmonic(float(angles[plane]), m)
            rows.append(
                {
                    "seed": seed,
                    "place": place,
                    "plane": plane,
                    "angle": float(angles[plane]),
                    "harmonic": found,
                    "character": round(found) % m,
                    "off": abs(found - round(found)),
                    "weight": float(sizes[plane]),
                }
            )
    return rows
