"""`statewise sample`: labelled sequences of a machine, as files that `train --words` and `learn` read."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from statewise.commands.inputs import MachineLike, PathLike, check_least, machine_of
from statewise.errors import TaskError, unknown_name
from statewise.files import write_whole
from statewise.machines import Machine
from statewise.randomness import stream
from statewise.tasks import Batch, Lengths, Task, sampling_of
from statewise.tasks.cover import draw_cover
from statewise.wording import Lines, Result

_SAMPLINGS = ("uniform", "balanced", "cover")
_LABELS = ("final", "aligned")
_ENDINGS = (".csv", ".jsonl")
_MOST_SYMBOLS = 50_000_000
# a mark alone, such as + of modular arithmetic, runs nothing
_FORMULA = re.compile(r"[=+\-@].*[(|!]", re.DOTALL)


@dataclass(frozen=True)
class Sample(Result):
    """A file of labelled sequences.

    Args:
        path: of the file.
        count: how many sequences it has.
        machine: what they are of.
        lengths: of the shortest and of the longest.
        constant: the share of the most frequent label among those at the end.
    """

    path: Path
    count: int
    machine: str
    lengths: tuple[int, int]
    constant: float

    def to_dict(self) -> dict[str, Any]:
        """Return what was written."""
        return {
            "path": str(self.path),
            "count": self.count,
            "machine": self.machine,
            "shortest": self.lengths[0],
            "longest": self.lengths[1],
            "constant": self.constant,
        }

    def lines(self) -> Lines:
        """Return what was written for a reader."""
        shortest, longest = self.lengths
        span = f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        return [
            ("sequences", f"{self.count:,} of {self.machine or 'a machine'}, {span} symbols long"),
            ("constant answer", f"correct at the end of {self.constant:.3f} of them"),
            ("path", str(self.path)),
        ]


def sample(
    machine: MachineLike,
    out: PathLike,
    count: int = 1_000,
    length: int = 10,
    shortest: int | None = None,
    sampling: str = "uniform",
    labels: str = "final",
    seed: int = 0,
) -> Sample:
    """Write labelled sequences of a machine to a file.

    Args:
        machine: what answers
        out: a .csv or .jsonl file
        count: how many sequences
        length: how long they are
        shortest: draw lengths from this to LENGTH; else all have LENGTH
        sampling: uniform, balanced (all labels at the end equally frequent), or cover (every transition is walked)
        labels: final (at the end), or aligned (after each symbol)
        seed: of the sequences
    """
    built, file = machine_of(machine), Path(out)
    for name, value, least in (("count", count, 1), ("length", length, 1), ("seed", seed, 0)):
        check_least(name, value, least)
    for what, given, known in (("sampling", sampling, _SAMPLINGS), ("labels", labels, _LABELS)):
        if given not in known:
            raise unknown_name(what, str(given), known)
    if file.suffix.lower() not in _ENDINGS:
        raise TaskError(f'out is "{file.name}"; expected a name that ends in .csv or .jsonl; rename it')
    if count * length > _MOST_SYMBOLS:
        raise TaskError(f"{count:,} sequences of {length:,} symbols are more than {_MOST_SYMBOLS:,}; ask for fewer")
    drawn = _draw(built, Lengths(length if shortest is None else shortest, length), count, sampling, seed)
    written = _csv(built, drawn, labels) if file.suffix.lower() == ".csv" else _json_lines(built, drawn, labels)
    write_whole(file, written)
    ends = np.bincount(drawn.finals).max() / count
    return Sample(file, count, built.name, (int(drawn.lengths.min()), int(drawn.lengths.max())), float(ends))


def _draw(machine: Machine, lengths: Lengths, count: int, sampling: str, seed: int) -> Batch:
    generator = stream(seed, "sample", sampling, count)
    drawn = lengths.draw(generator, count)
    if sampling != "cover":
        return Task(machine, lengths, "aligned", draws=sampling_of(sampling)).draw(generator, drawn)
    tokens = draw_cover(machine, generator, drawn)
    return Batch(tokens, drawn, machine.outputs[machine.track(tokens)], None)


def _words(machine: Machine, drawn: Batch) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the names of the symbols of each sequence, and of the labels after them."""
    for tokens, outputs, length in zip(drawn.tokens, drawn.outputs, drawn.lengths.tolist(), strict=True):
        yield (
            [machine.alphabet[a] for a in tokens[:length].tolist()],
            [machine.output_names[c] for c in outputs[:length].tolist()],
        )


def _json_lines(machine: Machine, drawn: Batch, labels: str) -> str:
    lines = []
    for word, answers in _words(machine, drawn):
        entry = {"word": word} | ({"labels": answers} if labels == "aligned" else {"label": answers[-1]})
        lines.append(json.dumps(entry, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def _csv(machine: Machine, drawn: Batch, labels: str) -> str:
    """Write symbols between spaces; names that cannot be told apart there are refused."""
    single = all(len(name) == 1 for name in (*machine.alphabet, *machine.output_names))
    spaced = any(name.split() != [name] for name in (*machine.alphabet, *machine.output_names))
    if spaced or (not single and drawn.lengths.max() == 1):
        raise TaskError("names with spaces, or of several characters alone, are no CSV; use a name that ends in .jsonl")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("word", "labels" if labels == "aligned" else "label"))
    for word, answers in _words(machine, drawn):
        cells = (" ".join(word), " ".join(answers) if labels == "aligned" else answers[-1])
        if any(map(_FORMULA.match, cells)):
            raise TaskError("names that a spreadsheet takes for a formula are no CSV; use a name that ends in .jsonl")
        writer.writerow(cells)
    return text.getvalue()
