"""A machine from labelled words: the method that fits them, and whether they determine the machine."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from statewise.errors import ToolMissingError, WordsError, unknown_name
from statewise.machines import Machine, distinguish, minimise
from statewise.stages import say
from statewise.theory.learning.edsm import WORK, BudgetError, merge_by_evidence
from statewise.theory.learning.hankel import solve_hankel
from statewise.theory.learning.labelled import LabelledWords, Word
from statewise.theory.learning.mealy import table_bits
from statewise.theory.learning.state_merging import merge_states
from statewise.theory.learning.tables import fit_tables, labels_can_be_states
from statewise.theory.learning.uniqueness import check_uniqueness

Status = Literal["exact", "undetermined", "noisy", "approximate"]
METHODS = ("auto", "edsm", "rpni", "hankel", "least-squares")
# edges times symbols of the words up to which auto tries least squares beside the exact methods
_TABLE_WORK = 20_000_000


@dataclass(frozen=True, eq=False)
class Learned:
    """A machine, and how far the words determine it.

    Args:
        machine: minimal.
        method: what found it.
        words: how many labelled words there were.
        consistent: how many of them it answers as they are labelled.
        determined: whether no other machine of at most as many states was found that answers all words as labelled.
        proven: whether there is none.
        helpful_word: in names of symbols, a word whose label would rule out another machine; None if none is known.
        undetermined: transitions (state, symbol) that no word uses.
        coverage: by least squares, the share of transitions for which there were two words u and ua.
        contradictory: whether some word has two labels, which no machine answers.
        reason: why this machine, and what the words leave open, in a sentence.
    """

    machine: Machine
    method: str
    words: int
    consistent: int
    determined: bool
    proven: bool
    helpful_word: tuple[str, ...] | None
    undetermined: tuple[tuple[int, str], ...]
    coverage: float | None
    contradictory: bool
    reason: str

    @property
    def status(self) -> Status:
        """The outcome: "exact", "undetermined", "noisy" or "approximate".

        All words fit an "exact" and an "undetermined" machine; another machine of at most as many states that fits too
        was found for the second only. Some words do not fit the others: "noisy" words contradict each other, so that no
        machine fits them all; an "approximate" machine is not the one of words that do not.
        """
        if self.consistent < self.words:
            return "noisy" if self.contradictory else "approximate"
        return "exact" if self.determined else "undetermined"


def learn(data: LabelledWords, method: str = "auto", name: str = "learned", work: int = WORK) -> Learned:
    """Learn a machine that answers words as they are labelled.

    Args:
        data: the words.
        method: "edsm" merges states by evidence, "rpni" in the order of their words; "hankel" solves for a machine in
            rational numbers where the words are complete; "least-squares" takes the labels for the states, and
            tolerates label noise; "auto" chooses.
        name: of the machine.
        work: how many steps "edsm" takes at most.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    found = _choose(data, work) if method == "auto" else _asked(data, method, work)
    machine = minimise(found.machine)
    machine = Machine(machine.delta, machine.start, machine.outputs, data.alphabet, data.output_names, name=name)
    say("deciding whether the words determine the machine", detail=f"{machine.states:,} states")
    unique = check_uniqueness(data, machine)
    # the machine of another method is as good a rival as a change of one edge
    rivals = () if unique.proven else found.rivals
    differences = [word for rival in rivals if (word := distinguish(machine, rival)) is not None]
    known = differences if unique.helpful is None else [*differences, unique.helpful]
    helpful = min(known, key=len, default=None)
    determined = unique.determined and not differences
    consistent = data.explained(machine)
    return Learned(
        machine,
        found.method,
        data.total,
        consistent,
        determined,
        unique.proven,
        None if helpful is None else tuple(machine.alphabet[a] for a in helpful),
        tuple((q, machine.alphabet[a]) for q, a in unique.unused),
        fit_tables(data, sweeps=0).coverage if found.method == "least-squares" else None,
        data.contradiction is not None,
        f"{found.why}; {_explain(data, machine, consistent, determined, unique.proven, len(unique.unused), helpful)}",
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """The machine of a method, why it was chosen, and other machines of at most as many states that fit too."""

    method: str
    machine: Machine
    why: str
    rivals: tuple[Machine, ...] = ()


_BY_METHOD: dict[str, Callable[[LabelledWords], Machine]] = {
    "rpni": merge_states,
    "hankel": solve_hankel,
    "least-squares": lambda data: fit_tables(data).machine,
}


def _asked(data: LabelledWords, method: str, work: int) -> _Found:
    why = f"{method} was asked for"
    if method != "edsm":
        return _Found(method, _BY_METHOD[method](data), why)
    merged = merge_by_evidence(data, work)
    return _Found(method, merged.machine, why if merged.ended is None else f"{why}, and used up its steps")


def _choose(data: LabelledWords, work: int) -> _Found:
    """Choose by the data: least squares where labels contradict each other, otherwise the briefest machine that fits.

    The briefest is the one whose table has the fewest bits (`table_bits`). Words that do not contradict each other are
    never taken for noise: a machine fits them all.
    """
    if data.contradiction is not None:
        why = f"least-squares was chosen, since the word {data.spell(data.contradiction)} has two labels"
        return _Found("least-squares", minimise(fit_tables(data).machine), why)
    fitting: dict[str, Machine] = {}
    failed: list[str] = []
    ended = None
    try:
        merged = merge_by_evidence(data, work)
        fitting["edsm"], ended = merged.machine, merged.ended
    except BudgetError as error:
        failed.append(str(error))
    if ended is None and not failed:
        # its work is about that of one round of edsm, and is not counted
        with suppress(ToolMissingError):
            say("merging states in the order of their words")
            fitting["rpni"] = minimise(merge_states(data))
    try:
        say("solving for a machine in rational numbers")
        fitting["hankel"] = minimise(solve_hankel(data))
    except WordsError as error:
        failed.append(str(error))
    labels = len(data.output_names)
    if data.padded.size * labels * len(data.alphabet) <= _TABLE_WORK and labels_can_be_states(data):
        say("fitting tables by least squares")
        tables = minimise(fit_tables(data).machine)
        if data.explained(tables) == data.total:
            fitting["least-squares"] = tables
    if not fitting:
        raise BudgetError("; ".join(failed))
    best = min(fitting, key=lambda method: table_bits(fitting[method]))
    machine = fitting[best]
    others = {m: found for m, found in fitting.items() if m != best}
    agreeing = [m for m, found in others.items() if distinguish(found, machine) is None]
    larger = [f"{m}: {others[m].states} states" for m in others if m not in agreeing]
    also = f", as {' and '.join(agreeing)} did," if agreeing else ""
    which = f"the briefest machine found ({', '.join(larger)})" if larger else "a machine"
    budget = "" if ended is None else "; its steps were used up, so that not all was tried"
    rivals = tuple(found for found in others.values() if found.states <= machine.states)
    return _Found(best, machine, f"{best} gave{also} {which} that fits all words{budget}", rivals)


def _explain(
    data: LabelledWords,
    machine: Machine,
    consistent: int,
    determined: bool,
    proven: bool,
    unused: int,
    helpful: Word | None,
) -> str:
    """Return in a sentence what the words leave open."""
    size = f"{machine.states} state{'s' if machine.states > 1 else ''}"
    transitions = f"{unused} of its {machine.delta.size} transitions {'is' if unused == 1 else 'are'} used by no word"
    query = "" if helpful is None else f", and the label of the word {data.spell(helpful)} would help"
    if consistent < data.total:
        wrong = data.total - consistent
        if data.contradiction is None:
            return (
                f"{wrong:,} of {data.total:,} labels do not fit it, though a larger machine fits all: use --method edsm"
            )
        return f"{wrong:,} of {data.total:,} labels contradict it" + (f"; {transitions}{query}" if unused else "")
    if proven:
        return f"no other machine of at most {size} fits them"
    if determined:
        return f"no other machine of at most {size} was found that fits them, though not all could be tried"
    if unused:
        return transitions + query
    if helpful is None:
        return f"it has too many transitions to decide whether another machine of {size} fits"
    return f"another machine of at most {size} fits them too{query}"
