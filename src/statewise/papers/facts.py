"""What of the paper is computed rather than trained: parameters, propositions, and parity by frozen networks."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from statewise.models.table import LEVELS
from statewise.papers.paper import Paper
from statewise.papers.scores import MeanOverLengths
from statewise.randomness import derive
from statewise.recurrence import unroll
from statewise.theory.certify.verdict import certify
from statewise.theory.compile import compile_machine
from statewise.theory.frozen_parity import EXAMPLES, Frequency, fit_readouts, frequency, learned
from statewise.theory.network import network_of
from statewise.transitions import Additive, Diagonal, Transition

_ANY = (
    "modular_addition(5)",
    "modular_arithmetic(5)",
    "symmetric(4)",
    "alternating(5, generators=standard)",
    "random_machine(10, seed=0, kind=permutation)",
    "random_machine(10, seed=0, kind=map)",
    "tomita(3)",
    "flip_flop(3)",
)
_ABELIAN = ("modular_addition(3)", "modular_addition(10)", "modular_addition(50)", "cyclic(4)*cyclic(6)")
_NOT_ABELIAN = ("symmetric(3)", "dihedral(4)", "quaternion", "alternating(4)")
_SIZES = range(1, 11)
_DRAWS = {"quick": 10_000, "paper": 100_000}
_LENGTHS = (10, 20, 50, 100, 200, 500, 1_000)
_FROZEN = {"quick": 20, "paper": 200}
_FROZEN_HIDDEN, _FITTED, _TESTED = 64, 200, 128


@dataclass(frozen=True)
class Fact:
    """A row of what is computed; its fields, in their order, are the columns of tables and files."""

    @property
    def contradicted(self) -> bool:
        """Whether it contradicts what the paper proves."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class ParameterCount(Fact):
    """How many recurrent parameters a level has, by the paper's formula and in our implementation."""

    model: str
    hidden: int
    formula: str
    paper: int
    ours: int
    holds: bool

    @property
    def contradicted(self) -> bool:
        """Whether the two differ."""
        return not self.holds


@dataclass(frozen=True)
class PropositionCheck(Fact):
    """A proposition on one machine: what it claims, whether that holds, and how that was found."""

    proposition: int
    machine: str
    claim: str
    holds: bool
    how: str

    @property
    def contradicted(self) -> bool:
        """Whether the claim does not hold."""
        return not self.holds


@dataclass(frozen=True)
class ParityFrequency(Fact):
    """How often two examples suffice at one hidden size, beside 1 - 2^-H."""

    found: Frequency

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        found = self.found
        return {
            "hidden": found.hidden,
            "draws": found.draws,
            "learned": found.learned,
            "frequency": found.learned / found.draws,
            "low": found.low,
            "high": found.high,
            "paper": found.predicted,
            "inside": found.low <= found.predicted <= found.high,
        }


@dataclass(frozen=True)
class FrozenScore(Fact):
    """The score of frozen random networks on parity at one length: the median over draws, and the quartiles."""

    additive: str
    examples: int
    length: int
    draws: int
    score: float
    low: float
    high: float


def facts_of(paper: Paper, name: str, preset: str) -> Sequence[Fact]:
    """Compute the rows of a fact."""
    paper.runs(name, preset)
    if name == "parameters":
        return parameters(paper, paper.hidden)
    if name == "parity":
        return parity(_DRAWS[preset])
    if name == "propositions":
        return propositions()
    if name == "brackets":
        # what this module needs is in this one
        from statewise.papers.brackets import bracket_depths

        assert isinstance(paper.score, MeanOverLengths)
        return bracket_depths(paper.score.first, paper.score.last)
    raise unknown_name("reproduction without runs", name, paper.facts)


def parameters(paper: Paper, size: int) -> list[ParameterCount]:
    """Count the recurrent parameters of each level at H = D = size, beside the paper's formulas."""
    rows = []
    for spec in dict.fromkeys(row.model for row in paper.plan("table-addition", "paper")):
        parsed = parse(spec)
        assert isinstance(parsed, Call)
        if parsed.name not in LEVELS:
            continue
        argument = int(parsed.args[0]) if parsed.args else 0
        kind = LEVELS[parsed.name]
        assert kind.count is not None
        expected = kind.count(size, size, argument)
        # shapes are enough: nothing is allocated
        with torch.device("meta"):
            ours = sum(p.numel() for p in build_transition(spec, size, size).parameters())
        rows.append(ParameterCount(spec, size, kind.parameters, expected, ours, ours == expected))
    return rows


def propositions() -> list[PropositionCheck]:
    """Check Propositions 1 to 3 on machines: by compiling and certifying, and by trying all signs."""
    rows = [_one_hot(task) for task in _ANY]
    rows += [_rotated(task) for task in _ABELIAN]
    rows += [_not_rotated(task) for task in _NOT_ABELIAN]
    return rows + [_all_signs(hidden) for hidden in _SIZES]


def _one_hot(task: str) -> PropositionCheck:
    machine = build(task)
    compiled = compile_machine(machine, "full")
    verdict = certify(network_of(compiled.model), machine, seconds=0.0, all_words=True)
    claim = f"one-hot states, hidden size {len(compiled.model.initial_state)}, answer all sequences correctly"
    return PropositionCheck(1, task, claim, verdict.status == "proven", f"{verdict.status}: {verdict.reason}")


def _rotated(task: str) -> PropositionCheck:
    machine = build(task)
    compiled = compile_machine(machine, "rotation", torch.float64)
    verdict = certify(network_of(compiled.model), machine, seconds=0.0, all_words=True)
    horizon = math.inf if verdict.status == "proven" else verdict.horizon or 0
    claim = f"an Abelian group: {compiled.how}, in float64"
    bound = "" if horizon == math.inf else f" of up to {horizon:,} symbols"
    return PropositionCheck(2, task, claim, horizon >= 10_000, f"proven correct on all sequences{bound}")


def _not_rotated(task: str) -> PropositionCheck:
    machine = build(task)
    try:
        compile_machine(machine, "rotation")
        refused = False
    except CompileError:
        refused = True
    words = _order_matters(machine)
    shown = "" if words is None else f"{' '.join(words[0])} and {' '.join(words[1])} differ, and rotations commute"
    claim = "a group that is not Abelian: no rotations track it"
    return PropositionCheck(2, task, claim, refused and words is not None, shown)


def _order_matters(machine: Machine) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Find two symbols whose order changes the answer."""
    names = machine.alphabet
    for a, b in product(range(machine.symbols), repeat=2):
        one, other = machine.track(np.array([[a, b], [b, a]]))[:, -1]
        if machine.outputs[one] != machine.outputs[other]:
            return (names[a], names[b]), (names[b], names[a])
    return None


def _all_signs(hidden: int) -> PropositionCheck:
    signs = torch.tensor(list(product([-1.0, 1.0], repeat=hidden)), dtype=torch.float64)
    correct = int(learned(signs, fit_readouts(signs)).sum())
    claim = f"of all {2**hidden:,} frozen diagonals of signs, all but one learn parity from two examples"
    how = f"H = {hidden}: {correct:,} learn it, at every length"
    return PropositionCheck(3, "parity", claim, correct == 2**hidden - 1, how)


def parity(draws: int, seed: int = 0) -> list[ParityFrequency]:
    """Draw frozen networks, and count how often two examples suffice, beside 1 - 2^-H."""
    return [ParityFrequency(frequency(hidden, draws, seed)) for hidden in _SIZES]


def frozen_parity(preset: str, seed: int = 0) -> list[FrozenScore]:
    """Evaluate frozen random diagonals at growing lengths, with and without additive terms (Figure 3, right).

    Diagonals are of random signs, as in Proposition 3; an offset is drawn once, of variance 1 in each entry. The
    readout is the least-squares one of least norm, on the two examples of Proposition 3 or on sequences of the training
    lengths.
    """
    rows = []
    for terms in ("none", "constant", "input"):
        for examples, scores in _follow(terms, _FROZEN[preset], derive(seed, "frozen")).items():
            for place, length in enumerate(_LENGTHS):
                low, middle, high = np.quantile(scores[place], [0.25, 0.5, 0.75]).tolist()
                rows.append(FrozenScore(terms, examples, length, scores.shape[1], middle, low, high))
    return rows


def _follow(terms: str, draws: int, seed: int) -> dict[int, Float[np.ndarray, "length draw"]]:
    """Return the scores of networks at each length, by how many examples their readouts were fitted to.

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
        fitted = {len(bits): _fit(network, bits, lengths) for bits, lengths in _examples(generator)}
        h = torch.ones(_TESTED, len(signs), dtype=torch.float64)
        total = torch.zeros(_TESTED, 1, dtype=torch.int64)
        scores: dict[int, list[np.ndarray]] = {examples: [] for examples in fitted}
        for length in range(1, max(_LENGTHS) + 1):
            bits = torch.randint(0, 2, (_TESTED, 1), generator=generator)
            _, h = unroll(network, _signed(bits).unsqueeze(-1), h)
            total += bits
            if length in _LENGTHS:
                for examples, readouts in fitted.items():
                    answers = torch.einsum("wdh,dh->wd", h.unflatten(1, (draws, -1)), readouts)
                    correct = ((answers > 0) == (_parities(total) > 0)).double().mean(dim=0)
                    scores[examples].append((2 * correct - 1).numpy())
    return {examples: np.stack(found) for examples, found in scores.items()}


def _fit(network: Transition, bits: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Fit a readout of each network to the parities of sequences, in closed form."""
    start = torch.ones(len(bits), network.hidden_size, dtype=torch.float64)
    _, ends = unroll(network, _signed(bits).unsqueeze(-1), start, lengths)
    states = ends.unflatten(1, (-1, _FROZEN_HIDDEN)).transpose(0, 1)
    return (torch.linalg.pinv(states) @ _parities(bits)).squeeze(-1)


def _examples(generator: torch.Generator) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return sequences and lengths: the two examples, and as many as a training set has."""
    longest = max(len(bits) for bits, _ in EXAMPLES)
    two = torch.tensor([[*bits, *[0] * (longest - len(bits))] for bits, _ in EXAMPLES])
    lengths = torch.randint(2, 11, (_FITTED,), generator=generator)
    sequences = torch.randint(0, 2, (_FITTED, 10), generator=generator)
    sequences[torch.arange(10) >= lengths[:, None]] = 0
    return [(two, torch.tensor([len(bits) for bits, _ in EXAMPLES])), (sequences, lengths)]


def _signed(bits: torch.Tensor) -> torch.Tensor:
    return (1 - 2 * bits).double()


def _parities(bits: torch.Tensor) -> torch.Tensor:
    return (1 - 2 * (bits.sum(dim=1, keepdim=True) % 2)).double()
