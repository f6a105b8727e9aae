"""Active learning: a machine from a system that can be asked, by AALpy's KV (Kearns and Vazirani 1994).

The system is taken for a Mealy machine: outputs after symbols, and none before the first. Each hypothesis is tested by
a suite of words; a word that is answered differently leads to the next one. No suite can prove that a system is its
hypothesis, unless it is known how many states the system has at most: the result says what was tested.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from statewise.errors import ProgramError, ToolMissingError
from statewise.machines import Machine, minimise
from statewise.theory.learning.labelled import count_words
from statewise.theory.learning.learner import learn
from statewise.theory.learning.mealy import from_mealy, mealy_states
from statewise.theory.learning.mealy_suites import Mealy, suite_words
from statewise.theory.learning.teacher import BudgetEndedError, System, Teacher
from statewise.wording import counted

# words that are asked again at the end
_AGAIN = 50
# suites after which a system with few more states is known
_BOUNDED = ("w-method", "mixed", "transition-cover")

Status = Literal["tested", "undetermined"]


class LearnerMissingError(ToolMissingError):
    """AALpy is not installed, so that no system can be asked."""

    exit_code = 2


@dataclass(frozen=True)
class Asking:
    """How a system is asked.

    Args:
        queries: how many words to ask at most.
        suite: what tests a hypothesis, by its name in `SUITES`.
        extra: for how many more states the W-method tests.
        seed: of the random suite.
    """

    queries: int = 100_000
    suite: str = "mixed"
    extra: int = 1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Taught:
    """A machine of a system, and what its being equal rests on.

    Args:
        machine: minimal, with outputs at its states; its output before the first symbol means nothing.
        method: what found it.
        mealy_states: how many states it has with outputs at its transitions.
        status: "tested" if it answers all words of the suite as the system does; "undetermined" if the budget ended.
        queries: how many words were asked, those that were asked twice included.
        tested: how many words of the suite the machine was tested on.
        extra: the W-method's number of more states for which all words were tested; None for none.
        reason: what the status rests on.
    """

    machine: Machine
    method: str
    mealy_states: int
    status: Status
    queries: int
    tested: int
    extra: int | None
    reason: str


def ask(system: System, symbols: tuple[str, ...], asking: Asking, name: str = "learned") -> Taught:
    """Learn the machine of a system.

    Args:
        system: gets the symbols of a word, begins anew, and returns the output after the last one, or one for each.
        symbols: what words are made of.
        asking: how it is asked.
        name: of the machine.
    """
    least = 2 * len(symbols)
    if asking.queries < least:
        raise ProgramError(f"queries are {asking.queries}; expected at least {least}, two for each symbol; raise them")
    try:
        from aalpy import SUL, Oracle, run_KV
    except ImportError:
        raise LearnerMissingError(
            "learning from a system needs the package aalpy, which is not installed; install statewise[learn], or give "
            "labelled words"
        ) from None

    teacher = Teacher(system, asking.queries)
    tests = _Tests(teacher, symbols, asking)

    class Asked(SUL):
        """The teacher, as AALpy asks it: word by word."""

        def query(self, word: tuple) -> list:
            return list(teacher.outputs(word))

        def pre(self) -> None: ...

        def post(self) -> None: ...

        def step(self, letter: Any) -> Any:
            raise AssertionError("words are asked as a whole")

    class Tester(Oracle):
        """The suite, as AALpy asks it."""

        def find_cex(self, hypothesis: Any) -> tuple | None:
            return tests.counterexample(hypothesis)

    asked = Asked()
    try:
        run_KV(
            list(symbols), asked, Tester(list(symbols), asked), "mealy", print_level=0, cache_and_non_det_check=False
        )
    except BudgetEndedError:
        return tests.unfinished(name)
    tests.confirm_some()
    return tests.passed(name)


class _Tests:
    """The hypotheses, one after the other, and their tests."""

    def __init__(self, teacher: Teacher, symbols: tuple[str, ...], asking: Asking) -> None:
        self.teacher, self.symbols, self.asking = teacher, symbols, asking
        self.mealy: Mealy | None = None
        self.names: list[str] = []
        self.tested, self.extra = 0, -1

    def counterexample(self, hypothesis: Any) -> tuple[str, ...] | None:
        """Return a word of the suite on which system and hypothesis differ; None if there is none."""
        self.mealy = self._table(hypothesis)
        self.tested, self.extra = 0, -1
        for level, word in suite_words(self.mealy, self.asking.suite, self.asking.extra, self.asking.seed):
            self.extra = level - 1
            spelled = tuple(self.symbols[a] for a in word)
            expected = [self.names[output] for output in self.mealy.answer(word)]
            given = self.teacher.outputs(spelled)
            for end, (one, other) in enumerate(zip(expected, given, strict=True), 1):
                if one != other:
                    # before a word is believed it is asked again
                    self.teacher.confirm(spelled[:end])
                    return spelled[:end]
            self.tested += 1
        self.extra = 0 if self.asking.suite == "transition-cover" else self.asking.extra
        return None

    def _table(self, hypothesis: Any) -> Mealy:
        """Return the minimal machine of AALpy's hypothesis."""
        states = [hypothesis.initial_state, *(q for q in hypothesis.states if q is not hypothesis.initial_state)]
        number = {id(state): q for q, state in enumerate(states)}
        outputs = [[state.output_fun[a] for a in self.symbols] for state in states]
        self.names = sorted({name for row in outputs for name in row})
        label = {name: c for c, name in enumerate(self.names)}
        return Mealy.reduced(
            np.array([[number[id(state.transitions[a])] for a in self.symbols] for state in states]),
            np.array([[label[name] for name in row] for row in outputs]),
        )

    def confirm_some(self) -> None:
        """Ask some words again, spread over all that were asked: the answers must be the same."""
        words = self.teacher.kept
        with contextlib.suppress(BudgetEndedError):
            for word in words[:: max(1, len(words) // _AGAIN)]:
                self.teacher.confirm(word)

    def passed(self, name: str) -> Taught:
        """Return the hypothesis that passed its suite."""
        found = self._machine(name)
        states = mealy_states(found)
        tested = f"the system answers all {counted(self.tested, 'word')} of the {self.asking.suite} suite as it does"
        if self.asking.suite in _BOUNDED:
            bound = states + self.extra
            reason = f"{tested}, so it is the system's if that has at most {counted(bound, 'state')} as a Mealy machine"
        else:
            reason = f"{tested}, which does not rule out others"
        return self._taught(found, "kv", "tested", reason)

    def unfinished(self, name: str) -> Taught:
        """Return a machine that answers all words that were asked before the budget ended."""
        ended = f"the budget of {self.asking.queries:,} queries ended"
        if self.mealy is not None and self._fits(self.mealy):
            what = f"{ended} during its {self.asking.suite} suite, of which {counted(self.tested, 'word')} agreed"
            return self._taught(self._machine(name), "kv", "undetermined", f"{what}; raise --queries")
        pairs = list(self.teacher.words())
        self.names = sorted({output for _, output in pairs})
        self.tested, self.extra = 0, -1
        what = f"{ended} before there was a hypothesis to test; {counted(len(pairs), 'answer')} fit this machine"
        if len(self.names) == 1:
            only = Machine([[0] * len(self.symbols)], 0, [0], self.symbols, self.names, name=name)
            return self._taught(only, "edsm", "undetermined", f"{what}; raise --queries")
        number = {symbol: a for a, symbol in enumerate(self.symbols)}
        words = [[number[symbol] for symbol in word] for word, _ in pairs]
        data = count_words(self.symbols, self.names, words, [self.names.index(output) for _, output in pairs])
        learned = learn(data, "edsm", name)
        return self._taught(learned.machine, "edsm", "undetermined", f"{what}; raise --queries")

    def _fits(self, mealy: Mealy) -> bool:
        """Return whether a machine answers all that was asked."""
        waiting = [(0, 0)]
        while waiting:
            state, node = waiting.pop()
            for a, symbol in enumerate(self.symbols):
                if symbol in self.teacher.after[node]:
                    output, below = self.teacher.after[node][symbol]
                    if self.names[mealy.outputs[state, a]] != output:
                        return False
                    waiting.append((int(mealy.delta[state, a]), below))
        return True

    def _machine(self, name: str) -> Machine:
        assert self.mealy is not None, "a hypothesis was tested"
        made = minimise(from_mealy(self.mealy.delta, self.mealy.outputs, self.symbols, tuple(self.names)))
        return Machine(made.delta, made.start, made.outputs, made.alphabet, made.output_names, name=name)

    def _taught(self, machine: Machine, method: str, status: Status, reason: str) -> Taught:
        extra = self.extra if self.asking.suite in _BOUNDED and self.extra >= 0 else None
        states = mealy_states(machine)
        return Taught(machine, method, states, status, self.teacher.asked, self.tested, extra, reason)
