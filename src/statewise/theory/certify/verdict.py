"""The verdict on a network: proven, refuted, correct up to a horizon, or unknown."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from statewise.errors import NetworkError
from statewise.machines import Machine, minimise
from statewise.tasks import legal_moves
from statewise.theory.certify.counts import CountProof, decide_by_counts
from statewise.theory.certify.exact_replay import Word, replay
from statewise.theory.certify.horizon import prove_horizon
from statewise.theory.certify.orbit import Decided, Legal, decide_by_orbit, decide_by_series
from statewise.theory.certify.refute import Budget, Counterexample, search
from statewise.theory.network import Network

Status = Literal["proven", "refuted", "horizon", "unknown"]


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
    """

    status: Status
    method: str
    reason: str
    shortest: int
    horizon: int | None = None
    counterexample: Counterexample | None = None
    restricted: bool = False


def certify(
    network: Network,
    machine: Machine,
    shortest: int = 0,
    seconds: float = 20.0,
    *,
    work: int | None = None,
    all_words: bool = False,
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
    """
    check_fit(network, machine)
    minimal = minimise(machine)
    legal = legal_moves(minimal)
    if all_words or legal.all():
        return _judge(network, minimal, shortest, seconds, work, None)
    return replace(_judge(network, minimal, shortest, seconds, work, legal), restricted=True)


def _judge(
    network: Network, minimal: Machine, shortest: int, seconds: float, work: int | None, legal: Legal | None
) -> Verdict:
    """Judge a network over sequences of the symbols that may follow."""
    exact: dict[str, Callable[[], Decided | CountProof | None]] = {
        "orbit": lambda: decide_by_orbit(network, minimal, shortest, legal=legal),
        "series": lambda: decide_by_series(network, minimal, shortest, legal),
        # counts of symbols do not know which sequence they are of
        "counts": lambda: decide_by_counts(network, minimal, shortest) if legal is None else None,
    }
    for method, decide in exact.items():
        decided = decide()
        if decided is None:
            continue
        if decided.equal:
            return Verdict("proven", method, _PROVEN[method], shortest)
        word = Word(decided.word or ())
        replayed = replay(network, minimal, word)
        if replayed is not None and replayed.given != replayed.right:
            found = Counterexample(word, replayed, method)
            least = len(word) - 1 if method == "orbit" and len(word) > shortest else None
            reason = "a word on which they differ" if method == "counts" else "a shortest word on which they differ"
            return Verdict("refuted", method, reason, shortest, least, found)
    near = prove_horizon(network, minimal, legal=legal)
    if near is not None and near.length is None:
        return Verdict("proven", "contraction", "errors shrink faster than they arise", shortest)
    if Budget(seconds, work).empty:
        if near is None or near.length is None or near.length < shortest:
            return Verdict(
                "unknown", "growth of errors", "no bound on errors was shown, and nothing was searched", shortest
            )
        return Verdict("horizon", "growth of errors", "each symbol adds a bounded error", shortest, near.length)
    searched = search(network, minimal, shortest, seconds, work=work, legal=legal)
    horizons = [n for n in (searched.proven, None if near is None else near.length) if n is not None and n >= shortest]
    horizon = max(horizons, default=None)
    tried = "; ".join(searched.tried)
    found = searched.counterexample
    if found is not None:
        least = None if horizon is None else min(horizon, len(found.word) - 1)
        return Verdict("refuted", found.found_by, f"replayed in {found.replayed.arithmetic}", shortest, least, found)
    if horizon is not None:
        by_growth = near is not None and near.length == horizon
        method = "growth of errors" if by_growth else "all words"
        return Verdict("horizon", method, f"no wrong word was found: {tried}", shortest, horizon)
    return Verdict("unknown", "search", f"no proof, and no wrong word was found: {tried}", shortest)


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


_PROVEN = {
    "orbit": "all directions that words lead to were checked, in whole numbers",
    "series": "logits are a function of the machine's state, in rational numbers",
    "counts": "all counts of symbols were checked, with bounds on what lies beyond",
}
