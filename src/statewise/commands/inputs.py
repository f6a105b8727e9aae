"""What commands take: a machine, a run, a model or a file, as a value, a name or a path."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

from statewise.errors import MachineError, RunError, shorten
from statewise.machines import Machine
from statewise.machines import machine as build_machine
from statewise.tasks.word_files import WordFile
from statewise.tasks.words import SHARES, WordsSource, shares_of, split_words, words_task

PathLike = str | os.PathLike[str]
MachineLike = Machine | str | os.PathLike[str]
WordsLike = PathLike | Sequence[tuple]
SharesLike = str | Sequence[float]
# a command, or a function of a word
SystemLike = str | Callable[[tuple[str, ...]], Any]
SymbolsLike = str | Sequence[str]


def machine_of(machine: MachineLike) -> Machine:
    """Return a machine; a name or a file is built."""
    if not isinstance(machine, Machine | str | os.PathLike):
        raise MachineError(f"a machine is {shorten(repr(machine))}; expected a Machine, a name or a file")
    return machine if isinstance(machine, Machine) else build_machine(machine)


def path_of(path: PathLike | None) -> Path | None:
    """Return a path, where there is one."""
    return None if path is None else Path(path)


def own_sequences(
    words: WordsLike | None, validation: PathLike | None, test: PathLike | None, shares: SharesLike | None
) -> str | WordsSource | None:
    """Return a user's own labelled sequences: the name of a task that reads them, or, of pairs, what is in memory.

    Args:
        words: the file of training, or of all sets; or pairs of a sequence and its label or labels.
        validation: the file of validation.
        test: the file of test.
        shares: of training, validation and test in `words`.
    """
    if words is None:
        if validation is not None or test is not None or shares is not None:
            raise RunError("there are no training sequences; give them with --words")
        return None
    if isinstance(words, str | os.PathLike):
        others = [None if path is None else os.fspath(path) for path in (validation, test)]
        return words_task(os.fspath(words), others[0], others[1], shares)
    if validation is not None or test is not None:
        raise RunError("pairs in memory are split by shares; leave the files of validation and test out")
    found = SHARES if shares is None else shares_of(shares)
    return split_words(WordFile.from_pairs(words), found, "words(memory)")


def count_of(words: int | WordsLike) -> int | None:
    """Return how many sequences are asked for; None where the sequences themselves are given."""
    if isinstance(words, str) and words.isdecimal():
        return int(words)
    return None if isinstance(words, str | os.PathLike | Sequence) else words


def words_or_count(words: int | WordsLike | None, test_sequences: int) -> tuple[WordsLike | None, int]:
    """Return labelled sequences, if any are given, and how many are drawn per length.

    Args:
        words: the sequences; a number is how many are drawn, as it was called before `test_sequences`.
        test_sequences: how many are drawn.
    """
    count = None if words is None else count_of(words)
    name = "test_sequences" if count is None else "words"
    found = test_sequences if count is None else count
    check_least(name, found, 1)
    return (words if count is None and not isinstance(words, int) else None), found


def check_least(name: str, value: object, least: int | float) -> None:
    """Refuse what is no number, or one below its least value."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= least:
        raise RunError(f"{name} is {shorten(repr(value))}; expected a number of at least {least}; correct it")


def numbers_of(name: str, values: object) -> tuple[int, ...]:
    """Return whole numbers of at least 1: one of them, several, or a text such as 10,500."""
    parts = values.split(",") if isinstance(values, str) else [values] if isinstance(values, Real) else values
    try:
        numbers = tuple(int(part) for part in parts)  # pyright: ignore[reportGeneralTypeIssues]
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or min(numbers) < 1:
        shown = shorten(values if isinstance(values, str) else repr(values))
        raise RunError(f'{name} are "{shown}"; expected whole numbers of at least 1, such as 10,500; correct them')
    return numbers


def symbols_of(symbols: SymbolsLike | None) -> tuple[str, ...]:
    """Return the symbols of a system's words: several, or a text such as coin,push."""
    parts = symbols.split(",") if isinstance(symbols, str) else list_of(symbols)
    names = [part.strip() for part in parts if isinstance(part, str)]
    if len(names) != len(parts) or not all(names) or len(set(names)) < len(names):
        shown = (
            "left out" if symbols is None else f'"{shorten(symbols if isinstance(symbols, str) else repr(symbols))}"'
        )
        raise RunError(f"symbols are {shown}; expected different names, such as coin,push; give what --system reads")
    return tuple(names)


def list_of(values: object) -> list[Any]:
    """Return several values; one that stands alone is a list of one."""
    return list(values) if isinstance(values, list | tuple | set | frozenset) else [values]


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Compute with so many threads of torch and of NumPy, and put the numbers back afterwards.

    One thread is repeatable bit for bit, and beside other busy processes more threads wait for each other.
    """
    import torch
    from threadpoolctl import threadpool_limits

    check_least("threads", threads, 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def device_of(name: str) -> str:
    """Return where to compute: cpu, cuda or mps as asked for, or with auto the first of cuda, mps and cpu there is."""
    if name == "cpu":
        return name
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return next(device for device, found in there.items() if found)
    kind, _, number = name.partition(":")
    if kind not in there or (number and not number.isdecimal()):
        raise RunError(f'device is "{shorten(name)}"; expected cpu, cuda, mps or auto; correct it')
    if not there[kind] or (kind == "cuda" and number and int(number) >= torch.cuda.device_count()):
        raise RunError(f"device is {name}, which this torch does not find here; use cpu or auto")
    return name
