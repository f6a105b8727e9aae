"""The verdict on a network: proven, refuted, correct up to a horizon, or unknown."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from statewise.errors import ContradictionError, NetworkError, shorten
from statewise.machines import Machine, minimise
from statewise.stages import say
from statewise.tasks import legal_moves
from statewise.theory.certify.counts import CountProof, decide_by_counts
from statewise.theory.certify.drift import search_by_drift
from statewise.theory.certify.exact_replay import Word, replay
from statewise.theory.certify.horizon import prove_horizon
from statewise.theory.certify.orbit import MAX_PAIRS, Decided, Legal, decide_by_orbit, decide_by_series
from statewise.theory.certify.reembedding import Reembedding
from statewise.theory.certify.refute import Budget, Counterexample, search
from statewise.theory.certify.trained import (
    ConeProof,
    TrainedHorizon,
    growths,
    prove_by_cones,
    prove_period,
    prove_trained_horizon,
)
from statewise.theory.network import Network

Status = Literal["proven", "refuted", "horizon", "unknown"]
# a horizon beyond this is not looked for a second time
_NEAR = 100_000
# how `numbers` of a verdict about a run in floats begins
RUN = "a run in "


@dataclass(frozen=True)
class Verdict:
    """What is known about a network and a machine, and by which method.

    Args:
        status: "proven" for all words of at least `shortest` symbols; "refuted" by a word; correct on all such words
            up to the "horizon"; or "unknown".
        method: the method that decided.
        reason: why, in a sentence.
        shortest: words of fewer symbols are not judged.
        horizon: the length up to which all judged words are answered correctly; None if no such length is known, or if
            all words are.
        counterexample: a word on which the two differ, replayed exactly.
        restricted: whether only sequences were judged that the task can draw.
        numbers: what the judged network is made of: how stored weights were read.
        reembedding: with the hidden state replaced by the nearest prototype every so many symbols, all words of at
            least `shortest` symbols are answered correctly; None if no period is known, or none was asked for.
        witness: what a proof of cones or of a trained network's horizon rests on.
    """

    status: Status
    method: str
    reason: str
    shortest: int
    horizon: int | None = None
    counterexample: Counterexample | None = None
    restricted: bool = False
    numbers: str = Network.reading
    reembedding: Reembedding | None = None
    witness: ConeProof | TrainedHorizon | None = None

    @property
    def of_run(self) -> bool:
        """Whether the run in floats was judged, which rounds, and not the network of exact numbers."""
        return self.numbers.startswith(RUN)


def certify(
    network: Network,
    machine: Machine,
    shortest: int = 0,
    seconds: float = 20.0,
    *,
    work: int | None = None,
    all_words: bool = False,
    prototypes: Float[np.ndarray, "state hidden"] | None = None,
) -> Verdict:
    """Decide whether a network answers as a machine does on all words of at least `shortest` symbols.

    Exact decisions come first; then a bound on the growth of errors; then a search for a counterexample. "proven"
    always has a proof behind it: sampling never leads there.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        shortest: words of fewer symbols are not judged.
        seconds: about how long to search on the clock; 0 means no search. Ignored where `work` is given.
        work: about how many hidden-state updates (products of a matrix with a hidden state) the search may make; 0
            means no search. The verdict is then the same on every computer; None leaves the clock as the only limit.
        all_words: judge sequences too that lead to an output named "error", which no task draws.
        prototypes: of the states of the minimal machine; a period of re-embedding is then proved too.
    """
    check_fit(network, machine)
    minimal = minimise(machine)
    legal = legal_moves(minimal)
    restricted = not (all_words or bool(legal.all()))
    judged = _judge(network, minimal, shortest, seconds, work, legal if restricted else None, prototypes)
    return replace(judged, restricted=restricted, numbers=network.reading)


def _judge(
    network: Network,
    minimal: Machine,
    shortest: int,
    seconds: float,
    work: int | None,
    legal: Legal | None,
    prototypes: Float[np.ndarray, "state hidden"] | None,
) -> Verdict:
    """Judge a network over sequences of the symbols that may follow."""
    if network.classes == 1:
        return Verdict("proven", "one class", _PROVEN["one class"], shortest)
    for method, decide in _decisions(network, minimal, shortest, legal):
        say(f"deciding all words by {method}")
        decided = decide()
        if decided is None:
            continue
        if decided.equal:
            return Verdict("proven", method, _PROVEN[method], shortest)
        word = Word(decided.word or ())
        replayed = replay(network, minimal, word)
        if replayed is None:
            continue
        if replayed.given == replayed.right:
            raise ContradictionError(
                f"by {method}, {_shown(word, minimal)} is answered wrong, and by a replay it is not"
            )
        found = Counterexample(word, replayed, method)
        if method == "counts":
            return Verdict("refuted", method, "a word on which they differ", shortest, None, found)
        least = len(word) - 1 if len(word) > shortest else None
        return Verdict("refuted", method, "a shortest word on which they differ", shortest, least, found)
    say("bounding the growth of errors")
    near = prove_horizon(network, minimal, legal=legal)
    grown = None if near is None else near.length
    if Budget(seconds, work).empty:
        if grown is None or grown < shortest:
            return Verdict(
                "unknown", "growth of errors", "no bound on errors was shown, and nothing was searched", shortest
            )
        return Verdict("horizon", "growth of errors", "each symbol adds a bounded error", shortest, grown)
    return _judge_trained(network, minimal, shortest, seconds, work, legal, prototypes, grown)


def _judge_trained(
    network: Network,
    minimal: Machine,
    shortest: int,
    seconds: float,
    work: int | None,
    legal: Legal | None,
    prototypes: Float[np.ndarray, "state hidden"] | None,
    grown: int | None,
) -> Verdict:
    """Judge a network that no exact method decides: all lengths by cones, or both sides of the shortest wrong word."""
    say("looking for cones that hold at all lengths")
    cones = prove_by_cones(network, minimal, shortest, legal, work)
    if cones is not None:
        return Verdict("proven", "cones", _PROVEN["cones"], shortest, witness=cones)
    searched = search(network, minimal, shortest, seconds, work=work, legal=legal)
    found, tried, far = searched.counterexample, list(searched.tried), None
    growing = []
    if grown is None or grown < _NEAR:
        say("bounding the growth of errors after a few symbols")
        growing = growths(network, minimal, legal, work=work)
        far = prove_trained_horizon(network, minimal, shortest, legal, proven=growing, work=work)
    if found is None:
        say("searching powers of words by repeated squaring")
        drift = search_by_drift(network, minimal, shortest, legal)
        found = drift.counterexample
        tried += [drift.skipped] * bool(drift.skipped)
        tried += [f"powers of {drift.loops} words by repeated squaring, up to {drift.times:.0e} times"] * bool(
            drift.loops
        )
    period = None
    if prototypes is not None:
        say("proving a period of re-embedding")
        period = prove_period(network, minimal, prototypes, shortest, legal, growing)
    proofs = {
        "all words": searched.proven,
        "growth of errors": grown,
        "burn-in and growth of errors": None if far is None else far.length,
    }
    horizons = {method: n for method, n in proofs.items() if n is not None and n >= shortest}
    # of equal horizons the first, which needs the least
    method = max(horizons, key=lambda name: horizons[name], default="search")
    witness = far if method.startswith("burn-in") else None
    horizon = horizons.get(method)
    if found is not None:
        _check_agreement(horizons, found, minimal)
        method, reason = found.found_by, f"replayed in {found.replayed.arithmetic}"
        return Verdict("refuted", method, reason, shortest, horizon, found, reembedding=period, witness=witness)
    reason = f"no wrong word was found: {'; '.join(tried)}"
    if horizon is not None:
        return Verdict("horizon", method, reason, shortest, horizon, reembedding=period, witness=witness)
    return Verdict("unknown", method, f"no proof, and {reason}", shortest, reembedding=period)


def _decisions(
    network: Network, minimal: Machine, shortest: int, legal: Legal | None
) -> Iterator[tuple[str, Callable[[], Decided | CountProof | None]]]:
    """Yield the decisions on all words, the cheap ones first."""
    # networks that were written from a machine have one direction for each state
    few = min(MAX_PAIRS, _PAIRS_PER_STATE * (minimal.states + 16) * (shortest + 1))
    yield "orbit", lambda: decide_by_orbit(network, minimal, shortest, few, legal)
    if legal is None:
        # counts of symbols do not know which sequence they are of
        yield "counts", lambda: decide_by_counts(network, minimal, shortest)
    yield "series", lambda: decide_by_series(network, minimal, shortest, legal)
    yield "orbit", lambda: decide_by_orbit(network, minimal, shortest, legal=legal)


def _check_agreement(horizons: dict[str, int], found: Counterexample, minimal: Machine) -> None:
    """Raise an error where a word is wrong that was proven right."""
    for method, horizon in horizons.items():
        if horizon >= len(found.word):
            raise ContradictionError(
                f"by {method}, all words of up to {horizon} symbols are answered correctly, and by a replay in "
                f"{found.replayed.arithmetic} {_shown(found.word, minimal)} is not"
            )


def _shown(word: Word, minimal: Machine) -> str:
    return f'"{shorten(word.written(minimal), 200)}" ({len(word)} symbols)'


def check_fit(network: Network, machine: Machine) -> None:
    """Raise an error if a machine has symbols or outputs that the network does not have."""
    if network.symbols != machine.symbols:
        raise NetworkError(
            f"the network reads {network.symbols} symbols and the machine {machine.symbols}; give the machine it tracks"
        )
    if network.classes < machine.classes:
        raise NetworkError(
            f"the machine has {machine.classes} outputs and the network's readout {network.classes}; "
            "give the machine it tracks"
        )


_PAIRS_PER_STATE = 4
_PROVEN = {
    "one class": "there is no other answer",
    "orbit": "all directions that words lead to were checked, in whole numbers",
    "series": "logits are a function of the machine's state, in rational numbers",
    "counts": "all counts of symbols were checked, with bounds on what lies beyond",
    "cones": "every symbol carries cones of correct states into each other",
}
