"""`statewise track`: the answer of a network, or of its machine, after each symbol that is read."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from statewise.commands.inputs import PathLike, torch_threads
from statewise.errors import NetworkError, RunError, StoppedError, WordsError, shorten
from statewise.files import reason_of
from statewise.interruption import Interrupted
from statewise.machines import Machine
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.tasks import BEYOND_SYMBOLS
from statewise.tasks.symbol_stream import number_symbols, read_symbols
from statewise.wording import Lines, Result

# symbols whose hidden states are kept at once
_AT_ONCE = 1_024


@dataclass(frozen=True)
class Tracked(Result):
    """What was tracked.

    Args:
        symbols: how many were read.
        answer: after the last; None if nothing was read.
        by: "network", or "table".
        says: of a table, on what it rests.
    """

    symbols: int
    answer: str | None
    by: str
    says: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the count and the last answer."""
        return {"symbols": self.symbols, "answer": self.answer, "by": self.by, "reason": self.says}

    def lines(self) -> Lines:
        """Return the count and the last answer for a reader."""
        shown = "nothing was read" if self.answer is None else self.answer
        return [("symbols", f"{self.symbols:,}"), ("answer", shown), ("by", self.by)]


def track(
    run: RunLike,
    file: PathLike | Iterable[str] | None = None,
    follow: bool = False,
    table: bool = False,
    states: bool = False,
    model: str | type | None = None,
    write: Callable[[str], object] | None = None,
) -> Tracked:
    """Read symbols from standard input, and print the answer of a network after each.

    Symbols stand between spaces or on lines; names of one character may stand side by side, and where a name has a
    space in it each line is one symbol. Memory does not grow with their number.

    Args:
        run: the directory of a network, or STORE#KEY
        file: read this file instead; in Python also names of symbols
        follow: at the end of the file wait for more, until Ctrl-C
        table: run the machine that stands for the network instead, which is much faster
        states: print the state of that machine instead of its answer
        model: the class of a run of one's own, such as file.py:Class
        write: called with the answers as text, one on each line
    """
    if states and not table:
        raise RunError("a network has no states of a machine; give --table too")
    named = isinstance(file, str | os.PathLike)
    if follow and not named:
        raise RunError("only a file can be followed; give it with --file")
    opened = load(run, model)
    if opened.supervision in BEYOND_SYMBOLS:
        raise NetworkError(
            f"the network was trained with supervision {opened.supervision} and reads more than symbols, so it has no "
            "answer after each; train it with supervision final or aligned"
        )
    count, last, says = 0, None, ""
    with torch_threads(1):
        tracker: _Tracker
        if table:
            from statewise.commands.tracked import tracked_machine

            found = tracked_machine(opened)
            tracker, says = _Table(found.machine, states), found.says
            logging.getLogger("statewise").warning("statewise: the answers are those of a table: %s", says)
        else:
            tracker = _network(opened)
        try:
            with _numbers(Path(file) if named else file, opened.source.alphabet, follow) as numbers:  # pyright: ignore[reportArgumentType]
                for symbols in numbers:
                    for begin in range(0, len(symbols), _AT_ONCE):
                        answers = tracker.answers(symbols[begin : begin + _AT_ONCE])
                        count, last = count + len(answers), answers[-1]
                        if write is not None:
                            write("\n".join(answers) + "\n")
        except KeyboardInterrupt as stop:
            ended = "" if last is None else f"; the last answer is {shorten(last)}"
            code = Interrupted.of(stop, "").exit_code
            raise StoppedError(f"interrupted after {count:,} symbols{ended}", code) from None
    return Tracked(count, last, "table" if table else "network", says)


@contextmanager
def _numbers(source: Path | Iterable[str] | None, alphabet: Sequence[str], follow: bool) -> Iterator[Any]:
    """Yield the numbers of symbols of a file, of names, or of standard input."""
    if source is None:
        yield read_symbols(cast("Any", sys.stdin.buffer), alphabet)
    elif isinstance(source, Path):
        try:
            stream = source.open("rb")
        except OSError as error:
            raise WordsError(f'cannot read "{shorten(source)}": {reason_of(error)}; give a file of symbols') from None
        with stream:
            yield read_symbols(stream, alphabet, follow)
    else:
        yield number_symbols(source, alphabet)


@runtime_checkable
class _Tracker(Protocol):
    def answers(self, symbols: list[int]) -> list[str]:
        """Return the names of the answers after some more symbols."""
        ...


class _Table:
    """A machine: one look-up per symbol."""

    def __init__(self, machine: Machine, states: bool) -> None:
        self.rows, self.state = machine.delta.tolist(), machine.start
        outputs = [machine.output_names[output] for output in machine.outputs.tolist()]
        self.names = list(machine.state_names) if states else outputs

    def answers(self, symbols: list[int]) -> list[str]:
        """Walk the table."""
        rows, names, state = self.rows, self.names, self.state
        found = []
        for symbol in symbols:
            state = rows[state][symbol]
            found.append(names[state])
        self.state = state
        return found


class _Linear:
    """A tracker whose update is linear: all states of a piece at once, each up to a positive factor."""

    def __init__(self, model: Any, names: list[str]) -> None:
        import torch

        from statewise.recurrence import token_table

        with torch.no_grad():
            self.table = token_table(model.transition, model.embeddings)
        self.model, self.names, self.h = model, names, model.initial_state.detach().unsqueeze(0)

    def answers(self, symbols: list[int]) -> list[str]:
        """Run the recurrence, and keep its last state, divided by a power of two."""
        import torch

        from statewise.recurrence import RESCALE_EVERY, TokenBatch, rescale_exactly, states_by_table

        with torch.no_grad():
            batch = TokenBatch(torch.tensor([symbols]), every=RESCALE_EVERY, backend=self.model.backend)
            states = states_by_table(self.model.transition, self.table, self.h, batch)
            self.h = rescale_exactly(states[:, -1], states.new_zeros(1))[0]
            return [self.names[c] for c in (states[0] @ self.model.readout.T).argmax(dim=-1).tolist()]


class _Stepping:
    """Any network with a state of fixed size: one step after the other, or, where it can, a piece at once."""

    def __init__(self, model: Any, names: list[str]) -> None:
        self.model, self.names, self.state = model, names, model.init_state(1)

    def answers(self, symbols: list[int]) -> list[str]:
        """Run the network from its state."""
        import torch

        from statewise.models import RecurrentModel

        tokens = torch.tensor([symbols])
        with torch.no_grad():
            if isinstance(self.model, RecurrentModel):
                logits, self.state = self.model.run(tokens, self.state)
                return [self.names[c] for c in logits[0].argmax(dim=-1).tolist()]
            found = []
            for token in tokens[0].unsqueeze(1):
                logits, self.state = self.model.step(token, self.state)
                found.append(self.names[int(logits[0].argmax())])
            return found


def _network(run: Run) -> _Tracker:
    """Return what runs a network; one whose state grows with what it has read is refused."""
    from statewise.export.steps import RecurrentStep, has_state
    from statewise.models import StateTracker
    from statewise.transitions import LinearTransition

    model = run.model
    # a readout may have more classes than are named
    names = [*run.source.output_names, *(f"class {c}" for c in range(run.source.classes, 1 << 12))]
    if isinstance(model, StateTracker):
        linear = isinstance(model.transition, LinearTransition)
        return _Linear(model, names) if linear else _Stepping(model, names)
    if not has_state(model) or RecurrentStep.of(model) is None:
        raise NetworkError(f"{run.name} keeps all that it has read, so that its memory would grow; give --table")
    return _Stepping(model, names)
