"""What is decided of a store's runs: by their records, or by a bounded search in the weights that the store kept."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from statewise.errors import StatewiseError
from statewise.machines import machine
from statewise.papers.lines import length_text
from statewise.report.entries import Entry, grouped
from statewise.report.networks import kept_network
from statewise.report.results import TaskResults
from statewise.store import Store
from statewise.theory import network_of
from statewise.theory.certify import certify

# the work of a page is bounded: networks that are certified, and hidden-state updates of each search
MOST_NETWORKS, WORK = 30, 100_000
Kind = Literal["proven", "polished", "horizon", "refuted", "unknown", "not certified"]
_NOT_CERTIFIED: Kind = "not certified"


@dataclass(frozen=True)
class RunVerdict:
    """What is decided of one run.

    Args:
        kind: "proven" at every length; "polished" and "horizon" up to a length, after polish or as trained; "refuted"
            by a sequence; "unknown" after a search; or "not certified" at all.
        length: up to which all sequences are right, or of the sequence that refutes.
    """

    kind: Kind
    length: int | None = None

    def __str__(self) -> str:
        """Write it for a reader: "refuted at length 14"."""
        at = "" if self.length is None else length_text(self.length)
        return {
            "proven": "proven at every length",
            "polished": f"polished: proven to length {at}",
            "horizon": f"proven to length {at}",
            "refuted": f"refuted at length {at}",
            "unknown": "undecided",
            "not certified": "not certified",
        }[self.kind]


NOT_CERTIFIED = RunVerdict(_NOT_CERTIFIED)


def verdicts_of(store: Store, entries: Iterable[Entry], tasks: Sequence[TaskResults]) -> dict[str, RunVerdict]:
    """Return what is decided of runs, by key.

    A record that was polished has its proven length. Of the others, the networks that the table shows are certified,
    one of each row before a second of any, as long as the budget lasts.

    Args:
        store: open to be read.
        entries: all runs of the store.
        tasks: the table of its results.
    """
    found = {entry.key: verdict for entry in entries if (verdict := _recorded(entry)) is not None}
    seeds = zip_longest(*(row.best.entries for task in tasks for row in task.rows))
    budget = MOST_NETWORKS
    for entry in (entry for some in seeds for entry in some if entry is not None):
        if budget == 0:
            break
        if entry.key in found:
            continue
        verdict = _certified(store, entry)
        if verdict is not None:
            found[entry.key] = verdict
            budget -= 1
    return found


def summarise(entries: Sequence[Entry], verdicts: Mapping[str, RunVerdict]) -> list[str]:
    """Write what is decided of the runs of a row, the weakest first: "2 refuted at length 14"."""
    ended = [entry for entry in entries if entry.status != "diverged"]
    kinds = grouped((verdicts.get(entry.key, NOT_CERTIFIED) for entry in ended), lambda verdict: verdict.kind)
    order = ("refuted", "unknown", _NOT_CERTIFIED, "horizon", "polished", "proven")
    lines = []
    for kind in (kind for kind in order if kind in kinds):
        lengths = [verdict.length for verdict in kinds[kind] if verdict.length is not None]
        # the shortest counterexample and the least proven length hold for all of them
        least = RunVerdict(kind, min(lengths, default=None))
        lines.append(str(least) if len(kinds) == 1 and len(ended) == 1 else f"{len(kinds[kind])} {least}")
    return lines


def _recorded(entry: Entry) -> RunVerdict | None:
    """Return what a record says of a network after polish; a length that was not proven is nothing."""
    polished = entry.record.polished
    if polished is None or polished.status != "converged" or polished.horizon is None:
        return None
    return RunVerdict("polished", polished.horizon)


def _certified(store: Store, entry: Entry) -> RunVerdict | None:
    """Certify a network that is a product of matrices; None of any other, and where its weights are not kept."""
    if entry.status == "diverged" or entry.options.supervision == "chain":
        return None
    network = kept_network(store, entry.record)
    if network is None:
        return None
    try:
        verdict = certify(network_of(network), machine(entry.options.task), entry.options.shortest, work=WORK)
    except StatewiseError:
        # an additive term, or weights that are not finite
        return None
    counter = verdict.counterexample
    return RunVerdict(verdict.status, verdict.horizon if counter is None else len(counter.word))
