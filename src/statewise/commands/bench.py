"""`statewise bench`: ours against named rivals."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from statewise.bench import BENCHMARKS, find_benchmark
from statewise.commands.inputs import PathLike, path_of, torch_threads
from statewise.errors import RunError
from statewise.files import write_whole
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.bench.timing import Row


@dataclass(frozen=True)
class BenchmarkNames(Result):
    """The benchmarks that there are."""

    names: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the names."""
        return {"benchmarks": list(self.names)}

    def lines(self) -> Lines:
        """Return the names for a reader."""
        return [("benchmarks", ", ".join(self.names))]


@dataclass(frozen=True)
class Measured(Result):
    """What one benchmark measured.

    Args:
        name: of the benchmark.
        threads: torch threads.
        rows: one for each comparison.
        versions: of what the numbers depend on.
        commit: of the source tree.
    """

    name: str
    threads: int
    rows: "tuple[Row, ...]"
    versions: dict[str, str]
    commit: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparisons, with what they depend on."""
        return {
            "name": self.name,
            "threads": self.threads,
            "rows": [row.to_dict() for row in self.rows],
            "versions": self.versions,
            "commit": self.commit,
        }

    def lines(self) -> Lines:
        """Return a line for each comparison."""
        return [(row.case, row.sentence()) for row in self.rows]


def bench(name: str | None = None, threads: int = 1, out: PathLike | None = None) -> BenchmarkNames | Measured:
    """Measure ours against named rivals, in one run, answers checked first.

    Args:
        name: one benchmark; none lists them
        threads: torch threads
        out: keep the result in this JSON file
    """
    if name is None:
        return BenchmarkNames(tuple(sorted(BENCHMARKS)))

    import json

    from statewise.runs.record import provenance

    measure, file = find_benchmark(name), path_of(out)
    if file is not None and file.is_dir():
        # said before minutes are spent
        raise RunError(f'"{file}" is a directory; give the name of a file, such as "{file / name}.json"')
    with torch_threads(threads):
        rows = measure()
    measured = Measured(name, threads, tuple(rows), **asdict(provenance()))
    if file is not None:
        write_whole(file, json.dumps(measured.to_dict(), indent=1) + "\n")
    return measured
