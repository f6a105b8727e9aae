"""`statewise learn`: labelled words, or a program that answers words, into a machine, and the machine into weights."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, SymbolsLike, SystemLike, check_least, path_of, symbols_of, torch_threads
from statewise.commands.made import made_run
from statewise.errors import RunError, shorten, unknown_name
from statewise.runs.directory import check_free
from statewise.runs.run import Run
from statewise.stages import say
from statewise.theory.learning.labelled import LabelledWords, read_words
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.machines import Machine
    from statewise.theory import Compiled, Learned
    from statewise.theory.certify import Verdict
    from statewise.theory.learning.active import Asking, Taught

# undetermined edges that the JSON object lists
_LISTED = 100


@dataclass(frozen=True, eq=False)
class ExactNetwork:
    """The network of a machine that was learned.

    Args:
        compiled: the network.
        verdict: that it is equal to the machine.
        run: its directory.
    """

    compiled: "Compiled"
    verdict: "Verdict"
    run: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return what the network is."""
        hidden = len(self.compiled.model.initial_state)
        return {"level": self.compiled.level, "hidden": hidden, "verified": True}

    def lines(self) -> Lines:
        """Return what the network is for a reader: equal to the machine, which says nothing of where that is from."""
        hidden, verdict = len(self.compiled.model.initial_state), self.verdict
        return [
            ("network", f"{self.compiled.level}, hidden size {hidden}, {self.compiled.how}"),
            ("weights", f"equal to the learned machine at all lengths ({verdict.method}: {verdict.reason})"),
        ]


@dataclass(frozen=True, eq=False)
class LearnedNetwork(Result):
    """A machine from labelled words, and its exact network.

    Args:
        learned: the machine, and how far the words determine it.
        network: its network.
    """

    learned: "Learned"
    network: ExactNetwork

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned."""
        learned, machine = self.learned, self.learned.machine
        return {
            "states": machine.states,
            "status": learned.status,
            "method": learned.method,
            "words": learned.words,
            "consistent": learned.consistent,
            "determined": learned.determined,
            "unique": learned.proven,
            "helpful_word": None if learned.helpful_word is None else list(learned.helpful_word),
            "undetermined": [[state, symbol] for state, symbol in learned.undetermined[:_LISTED]],
            "coverage": learned.coverage,
            **self.network.to_dict(),
            "reason": learned.reason,
            "run": self.network.run,
        }

    def lines(self) -> Lines:
        """Return what was learned for a reader."""
        learned, machine = self.learned, self.learned.machine
        lines = [
            ("words", f"{learned.words:,}, of which {learned.consistent:,} fit"),
            ("machine", f"states {machine.states}, symbols {machine.symbols}, found by {learned.method}"),
            ("status", f"{learned.status}: {learned.reason}"),
            *self.network.lines(),
        ]
        if learned.helpful_word is not None:
            word = shorten(" ".join(learned.helpful_word)) or "the empty word"
            lines.append(("would help", f"the label of: {word}"))
        return lines if self.network.run is None else [*lines, ("run", self.network.run)]


@dataclass(frozen=True, eq=False)
class TaughtNetwork(Result):
    """A machine from a system that was asked, and its exact network.

    Args:
        taught: the machine, and what was tested.
        suite: the words that tested it.
        network: its network.
    """

    taught: "Taught"
    suite: str
    network: ExactNetwork

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned."""
        taught = self.taught
        return {
            "states": taught.machine.states,
            "mealy_states": taught.mealy_states,
            "status": taught.status,
            "method": taught.method,
            "queries": taught.queries,
            "suite": self.suite,
            "tested": taught.tested,
            "extra": taught.extra,
            **self.network.to_dict(),
            "reason": taught.reason,
            "run": self.network.run,
        }

    def lines(self) -> Lines:
        """Return what was learned for a reader."""
        taught, machine = self.taught, self.taught.machine
        size = f"states {machine.states} ({taught.mealy_states} as a Mealy machine), symbols {machine.symbols}"
        lines = [
            ("queries", f"{taught.queries:,}, of which the {self.suite} suite compared {taught.tested:,} words"),
            ("machine", f"{size}, found by {taught.method}"),
            ("status", f"{taught.status}: {taught.reason}"),
            *self.network.lines(),
        ]
        return lines if self.network.run is None else [*lines, ("run", self.network.run)]


def learn(
    words: PathLike | LabelledWords | Sequence[tuple] | None = None,
    method: str = "auto",
    out: PathLike | None = None,
    work: int = 30_000_000,
    system: SystemLike | None = None,
    symbols: SymbolsLike | None = None,
    queries: int = 100_000,
    suite: str = "mixed",
    extra: int = 1,
    answer_seconds: float = 10.0,
    seed: int = 0,
) -> Run:
    """Learn a machine from labelled words, or from a program that answers words, and write it as an exact network.

    Args:
        words: labelled words: JSON lines, or CSV (word, label); in Python also pairs of a word and its label
        method: for words: auto, edsm, rpni, hankel or least-squares
        out: the directory of the network
        work: steps of edsm at most
        system: a program to ask instead: a word per line on its stdin, an answer per line on its stdout
        symbols: what words for the program are made of
        queries: words to ask the program at most
        suite: what tests a machine against the program: mixed (random, then w-method), w-method, transition-cover or
            random
        extra: test for so many more states (w-method and mixed)
        answer_seconds: how long one answer may take
        seed: of random words
    """
    if (words is None) == (system is None):
        given = "neither" if words is None else "both"
        raise RunError(f"{given} of words and --system are given; expected one of them; correct it")
    if system is None and symbols is not None:
        raise RunError("symbols are given without --system; labelled words have their own; leave --symbols out")
    if system is not None and method != "auto":
        raise RunError(f'method "{shorten(method)}" is for labelled words, and a system is asked; leave --method out')
    for name, value, least in (("work", work, 1), ("queries", queries, 1), ("extra", extra, 0), ("seed", seed, 0)):
        check_least(name, value, least)
    directory = path_of(out)
    if system is not None:
        from statewise.theory.learning.active import Asking

        asking = Asking(queries, suite, extra, seed)
        return _learn_system(system, symbols_of(symbols), asking, answer_seconds, directory)
    assert words is not None, "one of the two is given"
    return _learn_words(words, method, work, directory)


def _learn_words(
    words: PathLike | LabelledWords | Sequence[tuple], method: str, work: int, directory: Path | None
) -> Run:
    from statewise.theory.learning.learner import METHODS
    from statewise.theory.learning.learner import learn as find

    if method not in METHODS:
        raise RunError(f'method is "{shorten(method)}"; expected {", ".join(METHODS)}; correct it')
    if isinstance(words, str | os.PathLike):
        data, name = read_words(Path(words)), shorten(Path(words).stem)
    else:
        data, name = words if isinstance(words, LabelledWords) else LabelledWords.from_pairs(words), "learned"
    if directory is not None:
        check_free(directory)
    say("learning", detail=f"{data.total:,} words")
    learned = find(data, method, name=name, work=work)
    return _made(learned.machine, lambda network: LearnedNetwork(learned, network), directory)


def _learn_system(
    system: SystemLike, symbols: tuple[str, ...], asking: "Asking", answer_seconds: float, directory: Path | None
) -> Run:
    from statewise.theory.learning.active import ask
    from statewise.theory.learning.mealy_suites import SUITES
    from statewise.theory.learning.program import Program

    if asking.suite not in SUITES:
        raise unknown_name("suite", asking.suite, SUITES)
    check_least("answer_seconds", answer_seconds, 0.001)
    if directory is not None:
        check_free(directory)
    if isinstance(system, str):
        for symbol in symbols:
            if symbol.split() != [symbol]:
                raise RunError(
                    f'the symbol "{shorten(symbol, 20)}" has a space; a program reads symbols between spaces'
                )
        with Program(system, answer_seconds) as program:
            taught = ask(program, symbols, asking)
    else:
        taught = ask(system, symbols, asking)
    return _made(taught.machine, lambda network: TaughtNetwork(taught, asking.suite, network), directory)


def _made(machine: "Machine", summary: Callable[[ExactNetwork], Result], directory: Path | None) -> Run:
    """Compile a machine, prove the network equal to it, and return its run."""
    from statewise.theory import compile_machine, network_of
    from statewise.theory.certify import certify

    with torch_threads(1):
        say("writing the network")
        compiled = compile_machine(machine)
        verdict = certify(network_of(compiled.model), machine, seconds=0.0, all_words=True)
    if verdict.status != "proven":
        raise RunError(
            f"the network of the learned machine of {machine.states} states is not proven equal to it: "
            f"{verdict.reason}; this is a fault of ours, please report it"
        )
    network = ExactNetwork(compiled, verdict, None if directory is None else str(directory))
    return made_run("learned", compiled, machine, summary(network), directory)
