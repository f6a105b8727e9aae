"""What is decided of a store's runs: by their records, by a bounded search in kept weights, or by their own tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, get_args

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
Kind = Literal["not learned", "wrong", "refuted", "unknown", "not certified", "horizon", "polished", "proven"]
# from the weakest to the strongest
_ORDER: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class RunVerdict:
    """What is decided of one run.

    Args:
        kind: "proven" at every length; "polished" and "horizon" up to a length, after polish or as trained; "refuted"
            by a counterexample; "wrong" on a test sequence; "not learned", wrong on training lengths; "unknown" after a
            search; or "not certified", where every test sequence is right and nothing was searched.
        length: up to which all sequences are right, or of a sequence that is not.
        wrong: beyond a "horizon", the shortest length at which a test sequence was answered wrongly.
    """

    kind: Kind
    length: int | None = None
    wrong: int | None = None

    def __str__(self) -> str:
        """Write it for a reader: "refuted at length 14"."""
        at = "" if self.length is None else length_text(self.length)
        return {
            "proven": "proven at every length",
            "polished": f"polished: proven to length {at}",
            "horizon": f"proven to length {at}"
            + ("" if self.wrong is None else f", wrong on tests of length {self.wrong:,}"),
            "refuted": f"refuted at length {at}",
            "wrong": f"wrong on tests of length {at}",
            "not learned": "wrong on training lengths",
            "unknown": "undecided",
            "not certified": "not certified",
        }[self.kind]


NOT_CERTIFIED = RunVerdict("not certified")


def verdicts_of(store: Store, entries: Iterable[Entry], tasks: Sequence[TaskResults]) -> dict[str, RunVerdict]:
    """Return what is decided of runs, by key.

    A network that was polished has its proven length. Of the others that are right on training lengths, those that the
    table shows are certified, one of each row before a second of any, as long as the budget lasts. What is wrong on
    its own test sequences needs no search.

    Args:
        store: open to be read.
        entries: all runs of the store.
        tasks: the table of its results.
    """
    entries = list(entries)
    found = {entry.key: verdict for entry in entries if (verdict := _recorded(entry)) is not None}
    tested = {entry.key: verdict for entry in entries if (verdict := _tested(entry)) is not None}
    seeds = zip_longest(*(row.best.entries for task in tasks for row in task.rows))
    budget = MOST_NETWORKS
    for entry in (entry for some in seeds for entry in some if entry is not None):
        decided = found.get(entry.key) or tested.get(entry.key, NOT_CERTIFIED)
        if decided.kind in ("polished", "not learned"):
            continue
        verdict = _judged(entry)
        if verdict is None and budget:
            verdict = _certified(store, entry)
            budget -= verdict is not None
        if verdict is not None:
            found[entry.key] = replace(verdict, wrong=decided.length) if verdict.kind == "horizon" else verdict
        if verdict is not None and verdict.kind == "unknown" and decided.kind == "wrong":
            found[entry.key] = decided
    return tested | found


def summarise(entries: Sequence[Entry], verdicts: Mapping[str, RunVerdict]) -> list[str]:
    """Write what is decided of the runs of a row, the weakest first: "2 refuted at length 14"."""
    ended = [entry for entry in entries if entry.status != "diverged"]
    kinds = grouped((verdicts.get(entry.key, NOT_CERTIFIED) for entry in ended), lambda verdict: verdict.kind)
    lines = []
    for some in (kinds[kind] for kind in _ORDER if kind in kinds):
        # the shortest counterexample and the least proven length hold for all of them
        lengths = [verdict.length for verdict in some if verdict.length is not None]
        wrong = [verdict.wrong for verdict in some if verdict.wrong is not None]
        least = replace(
            some[0], length=min(lengths, default=None), wrong=min(wrong) if len(wrong) == len(some) else None
        )
        lines.append(str(least) if len(ended) == 1 else f"{len(some)} {least}")
    return lines


def _recorded(entry: Entry) -> RunVerdict | None:
    """Return what a record says of a network after polish; a length that was not proven is nothing."""
    polished = entry.record.polished
    if polished is None or polished.status != "converged" or polished.horizon is None:
        return None
    return RunVerdict("polished", polished.horizon)


def _judged(entry: Entry) -> RunVerdict | None:
    """Return what was decided of a network before its weights were dropped."""
    verdict = entry.record.verdict
    return None if verdict is None else RunVerdict(verdict.status, verdict.length)


def _tested(entry: Entry) -> RunVerdict | None:
    """Return what a run's own test sequences decide; None where all of them are right, or none was read."""
    if entry.score_id is not None and entry.score_id < 1:
        return RunVerdict("not learned")
    wrong = [length for length, score in entry.scores.items() if score < 1]
    return RunVerdict("wrong", min(wrong)) if wrong else None


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
