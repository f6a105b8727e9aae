"""`statewise learn`: labelled words into a machine, and the machine into weights."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, path_of, torch_threads
from statewise.commands.made import made_run
from statewise.errors import RunError, shorten
from statewise.runs.directory import check_free
from statewise.runs.run import Run
from statewise.theory.learning.labelled import LabelledWords, read_words
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.theory import Compiled, Learned
    from statewise.theory.certify import Verdict

# undetermined edges that the JSON object lists
_LISTED = 100


@dataclass(frozen=True, eq=False)
class LearnedNetwork(Result):
    """A machine from labelled words, and its exact network.

    Args:
        learned: the machine, and how far the words determine it.
        compiled: its network.
        verdict: that the two are equal.
        run: the directory of the network.
    """

    learned: "Learned"
    compiled: "Compiled"
    verdict: "Verdict"
    run: str | None

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
            "level": self.compiled.level,
            "hidden": len(self.compiled.model.initial_state),
            "verified": True,
            "reason": learned.reason,
            "run": self.run,
        }

    def lines(self) -> Lines:
        """Return what was learned for a reader."""
        learned, machine, compiled = self.learned, self.learned.machine, self.compiled
        hidden, verdict = len(compiled.model.initial_state), self.verdict
        lines = [
            ("words", f"{learned.words:,}, of which {learned.consistent:,} fit"),
            ("machine", f"states {machine.states}, symbols {machine.symbols}, found by {learned.method}"),
            ("status", f"{learned.status}: {learned.reason}"),
            ("network", f"{compiled.level}, hidden size {hidden}, {compiled.how}"),
            ("proven", f"the network is this machine at all lengths ({verdict.method}: {verdict.reason})"),
        ]
        if learned.helpful_word is not None:
            word = shorten(" ".join(learned.helpful_word)) or "the empty word"
            lines.append(("would help", f"the label of: {word}"))
        return lines if self.run is None else [*lines, ("run", self.run)]


def learn(words: PathLike | LabelledWords | Sequence[tuple], method: str = "auto", out: PathLike | None = None) -> Run:
    """Learn a machine from labelled words, and write it as an exact network.

    Args:
        words: labelled words: JSON lines, or CSV (word, label); in Python also pairs of a word and its label
        method: auto, rpni, least-squares or hankel
        out: the directory of the network
    """
    from statewise.theory.learning.learner import METHODS
    from statewise.theory.learning.learner import learn as find

    if method not in METHODS:
        raise RunError(f'method is "{shorten(method)}"; expected {", ".join(METHODS)}; correct it')
    if isinstance(words, str | os.PathLike):
        data, name = read_words(Path(words)), shorten(Path(words).stem)
    else:
        data, name = words if isinstance(words, LabelledWords) else LabelledWords.from_pairs(words), "learned"
    directory = path_of(out)
    if directory is not None:
        check_free(directory)

    from statewise.theory import compile_machine, network_of
    from statewise.theory.certify import certify

    with torch_threads(1):
        learned = find(data, method, name=name)
        compiled = compile_machine(learned.machine)
        verdict = certify(network_of(compiled.model), learned.machine, seconds=0.0, all_words=True)
    if verdict.status != "proven":
        raise RunError(
            f"the network of the learned machine of {learned.machine.states} states is not proven equal to it: "
            f"{verdict.reason}; this is a fault of ours, please report it"
        )
    summary = LearnedNetwork(learned, compiled, verdict, None if directory is None else str(directory))
    return made_run("learned", compiled, learned.machine, summary, directory)
