"""A machine from labelled words: the method that fits them, and whether they determine the machine."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from statewise.errors import ToolMissingError, WordsError, unknown_name
from statewise.machines import Machine, distinguish, minimise
from statewise.theory.learning.hankel import solve_hankel
from statewise.theory.learning.labelled import LabelledWords, Word, count_words
from statewise.theory.learning.state_merging import merge_states
from statewise.theory.learning.tables import fit_tables
from statewise.theory.learning.uniqueness import check_uniqueness

Status = Literal["exact", "undetermined", "noisy"]
METHODS = ("auto", "rpni", "least-squares", "hankel")
# state merging takes minutes on many words with label noise: so many show whether there is any
_PILOT = 1_000
# a machine with exceptions is considered if it describes the labels in this share of their own bits
_BRIEF = 2 / 3


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
    reason: str

    @property
    def status(self) -> Status:
        """The outcome: "exact", "undetermined" or "noisy".

        All words fit an "exact" and an "undetermined" machine; another machine of at most as many states that fits too
        was found for the second only. Some words do not fit a "noisy" one.
        """
        if self.consistent < self.words:
            return "noisy"
        return "exact" if self.determined else "undetermined"


def learn(data: LabelledWords, method: str = "auto", name: str = "learned") -> Learned:
    """Learn a machine that answers words as they are labelled.

    Args:
        data: the words.
        method: "rpni" merges states; "least-squares" takes the labels for the states, and tolerates label noise;
            "hankel" solves for a machine in rational numbers where the words are complete; "auto" chooses.
        name: of the machine.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    found = _choose(data) if method == "auto" else _asked(data, method)
    machine = minimise(found.machine)
    machine = Machine(machine.delta, machine.start, machine.outputs, data.alphabet, data.output_names, name=name)
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


def _asked(data: LabelledWords, method: str) -> _Found:
    return _Found(method, _BY_METHOD[method](data), f"{method} was asked for")


def _choose(data: LabelledWords) -> _Found:
    """Choose by the data: least squares where labels are noisy, otherwise the smallest machine that fits all words."""
    tables = minimise(fit_tables(data).machine)
    if data.contradiction is not None:
        why = f"least-squares was chosen, since the word {data.spell(data.contradiction)} has two labels"
        return _Found("least-squares", tables, why)
    if _is_noise(data, tables):
        share = data.explained(tables) / data.total
        why = f"least-squares was chosen, since {share:.0%} of the labels fit a small machine and the others look wrong"
        return _Found("least-squares", tables, why)
    fitting: dict[str, Machine] = {}
    failed: dict[str, Exception] = {}
    for method in ("rpni", "hankel"):
        try:
            fitting[method] = minimise(_BY_METHOD[method](data))
        except (ToolMissingError, WordsError) as error:
            failed[method] = error
    if data.explained(tables) == data.total:
        fitting["least-squares"] = tables
    if not fitting:
        # without the package no method is left that fits any words
        raise failed["rpni"]
    best = min(fitting, key=lambda method: fitting[method].states)
    size = fitting[best].states
    rivals = tuple(m for method, m in fitting.items() if method != best and m.states <= size)
    agreeing = [method for method in fitting if method != best and distinguish(fitting[method], fitting[best]) is None]
    also = f", as {' and '.join(agreeing)} did," if agreeing else ""
    which = "the smallest machine found" if len(agreeing) + 1 < len(fitting) else "a machine"
    return _Found(best, fitting[best], f"{best} gave{also} {which} that fits all words", rivals)


def _is_noise(data: LabelledWords, tables: Machine) -> bool:
    """Return whether a machine by least squares, with exceptions, describes the labels in far fewer bits than others.

    This is the principle of minimum description length (Rissanen 1978); the others fit all labels.
    """
    if data.explained(tables) == data.total:
        return False
    pilot = data
    if len(data.words) > _PILOT:
        labels = [data.label_of[word] for word in data.words[:_PILOT]]
        if len(set(labels)) < 2:
            return False
        pilot = count_words(data.alphabet, data.output_names, data.words[:_PILOT], labels)
    shares = pilot.counts.sum(axis=0) / pilot.total
    plain = -pilot.total * float(sum(p * math.log2(p) for p in shares.tolist() if p))
    brief = _bits(pilot, tables)
    if brief > _BRIEF * plain:
        return False
    try:
        return brief < _bits(pilot, minimise(merge_states(pilot)))
    except ToolMissingError:
        return True


def _bits(data: LabelledWords, machine: Machine) -> float:
    """Return the description length of the labels: the machine's table, and its exceptions."""
    table = machine.states * (machine.symbols * math.log2(machine.states) + math.log2(machine.classes))
    wrong = 1 - data.explained(machine) / data.total
    each = 0.0 if wrong in (0, 1) else -wrong * math.log2(wrong) - (1 - wrong) * math.log2(1 - wrong)
    return table + data.total * (each + wrong * math.log2(max(2, machine.classes - 1)))


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
