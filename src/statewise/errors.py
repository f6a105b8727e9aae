"""Errors that a caller can cause, one type for each kind.

A message is one sentence in three parts: what was wrong (with the value), what was expected, what to do.
"""

import difflib
from collections.abc import Iterable, Sequence


class StatewiseError(ValueError):
    """The base of all errors that a caller can cause; the command line shows its text and exits with `exit_code`."""

    exit_code = 2


class MachineError(StatewiseError):
    """A table, a start state or outputs that do not make a machine."""


class IncompleteMachineError(MachineError):
    """A state without a transition on some symbol."""


class NondeterministicMachineError(MachineError):
    """A state with two transitions on one symbol."""


class WordError(StatewiseError):
    """A word with a symbol that the machine does not read."""


class MachineFileError(StatewiseError):
    """A machine file that cannot be read as one."""


class FileError(StatewiseError):
    """A file that cannot be written."""


class UnreadableError(StatewiseError):
    """A file that cannot be read within the bounds of `statewise.reading`; its text is the reason alone."""


class OutputError(StatewiseError):
    """A result that standard output does not take."""

    exit_code = 1


class TooLargeError(StatewiseError):
    """An object larger than the documented bound."""


class ExpressionError(StatewiseError):
    """An expression such as `cyclic(4)*cyclic(6)` or `block(2)` that does not parse, or has wrong arguments."""


class UnknownNameError(ExpressionError):
    """A name that is in no catalogue; the message names the nearest one."""


class RegexError(ExpressionError):
    """A regular expression outside the supported syntax."""


class TransitionError(StatewiseError):
    """Sizes or options from which a transition or a layer cannot be built."""


class ModelError(StatewiseError):
    """A model of one's own that cannot be built or used."""


class PretrainedError(StatewiseError):
    """A directory of a saved network that cannot be read."""


class InputError(StatewiseError):
    """A tensor of the wrong shape or kind handed to a layer."""


class TaskError(StatewiseError):
    """Lengths, samples or a machine that do not make a task."""


class RunError(StatewiseError):
    """A run directory, a checkpoint or options of a run that cannot be used."""


class BusyError(RunError):
    """A run directory in which another process is training."""


class CheckpointWriteError(RunError):
    """A checkpoint that cannot be written, such as on a full disk; the one before stays."""


class CertificateError(StatewiseError):
    """A file that is no certificate, or a verdict of which none can be written."""


class NetworkError(StatewiseError):
    """A model of which nothing can be proved, or that does not fit a machine."""


class CompileError(StatewiseError):
    """A machine that a level cannot track, or not at the requested size."""


class WordsError(StatewiseError):
    """Labelled words that cannot be read, or contradict each other."""


class ProgramError(StatewiseError):
    """A program or a function of the user's that cannot be started, does not answer, or answers out of protocol."""


class StoreError(StatewiseError):
    """A store that cannot be read, or that another process writes to."""


class DamagedStoreError(StoreError):
    """A store whose files are not what was written."""


class StoreWriteError(StoreError):
    """A store that stops taking records, such as on a full disk; what it holds stays."""

    exit_code = 1


class GridError(StatewiseError):
    """A grid of runs that is empty, too large, or has a wrong name or value."""


class WrongAnswerError(StatewiseError):
    """A benchmark whose two sides do not agree: nothing is timed."""

    exit_code = 1


class StoppedError(StatewiseError):
    """A command that was asked to end: by Ctrl-C, or by the signal that its exit code names."""

    def __init__(self, said: str, exit_code: int = 130) -> None:
        super().__init__(said)
        self.exit_code = exit_code


class ToolMissingError(StatewiseError):
    """A program, or a package of an extra, that is not installed."""

    exit_code = 1


class TorchMissingError(ToolMissingError):
    """torch is not installed."""


class ContradictionError(Exception):
    """Two proofs that contradict each other: a fault of this library, which no caller can cause or should catch."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"two proofs contradict each other: {found}. One of them is wrong, which is a bug of statewise; please "
            "report it, with this line, the weights and the machine, and trust neither"
        )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not in a catalogue, with the nearest valid one."""
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f'did you mean "{nearest[0]}"?' if nearest else f"use one of {', '.join(names)}"
    return UnknownNameError(f'unknown {kind} "{shorten(name)}"; {hint}')


def shorten(text: object, limit: int = 60) -> str:
    """Cut a value to one short printable line, so that a message stays one sentence whatever was typed."""
    # no more is looked at than is shown
    line = "".join(character if character.isprintable() else "?" for character in str(text)[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shorten_apart(names: Sequence[str], limit: int) -> list[str]:
    """Cut names to short printable texts; no two different names look alike, if need be since less is cut."""
    for length in (limit, 2 * limit, 4 * limit, 8 * limit):
        cut = {name: shorten(name, length) for name in names}
        if len(set(cut.values())) < len(cut):
            cut = {name: _without_middle(name, length) for name in names}
        if len(set(cut.values())) == len(cut):
            return [cut[name] for name in names]
    # what cannot be printed looks alike, and so may very long names
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    return [f"{number[name]}:{shorten(name, limit)}" for name in names]


def _without_middle(name: str, limit: int) -> str:
    line = shorten(name, max(len(name), 1))
    front = (limit - 1) // 2
    return line if len(line) <= limit else f"{line[:front]}…{line[len(line) - (limit - 1 - front) :]}"
