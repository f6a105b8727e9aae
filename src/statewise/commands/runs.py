"""`statewise runs` and `statewise store merge`: what a store holds, and stores merged."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from statewise.commands.inputs import PathLike, check_least, path_of
from statewise.errors import StoreError, shorten, unknown_name
from statewise.runs.directory import RECORD
from statewise.runs.record import STATUSES, Record
from statewise.runs.run import Run
from statewise.store import (
    RunFiles,
    Store,
    StoredRun,
    constants_of,
    exporter,
    is_table,
    load,
    merge_into,
    open_stored,
    read_records,
    run_files,
    source_of,
)
from statewise.wording import Lines, Result, counted, visible

# each score stands beside the best constant answer on the same sequences
_NUMBERS = "  ".join(f"{name:>8}" for name in ("train", "constant", "long", "constant"))
_HEADER = ("key", f"{'status':8}  {_NUMBERS}  {'finished':16}  task  model  recipe  options")


@dataclass(frozen=True)
class _More:
    """What a list shows of a run beside the columns of the store.

    Args:
        constant_id: the best constant answer beside the score on training lengths.
        constant_ood: the same at the length at which runs are compared.
        loss: what was minimised.
        reason: why it failed.
    """

    constant_id: float | None = None
    constant_ood: float | None = None
    loss: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Listing(Result):
    """Runs of a store.

    Args:
        store: its directory.
        counts: how many runs it has of each status.
        matching: how many match the filters.
        filtered: whether there are any filters.
        runs: the last of those that match.
        more: by key, what else is shown of a listed run.
        out: the file that all matching runs were written to.
    """

    store: Path
    counts: Mapping[str, int]
    matching: int
    filtered: bool
    runs: tuple[StoredRun, ...]
    more: Mapping[str, _More] = field(default_factory=dict)
    out: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the list as plain values; a run that failed has its reason."""
        rows = []
        for run in self.runs:
            more = asdict(self.more.get(run.key, _More()))
            rows.append(run.to_dict() | {name: more[name] for name in more if name != "reason" or more[name]})
        result = {"store": str(self.store), "counts": dict(self.counts), "matching": self.matching, "runs": rows}
        return result if self.out is None else result | {"out": str(self.out)}

    def lines(self) -> Lines:
        """Return the counts, then one line for each listed run."""
        total = ", ".join(f"{count:,} {name}" for name, count in self.counts.items()) or "no runs"
        lines = [("store", f"{self.store}: {total}")]
        if self.filtered or len(self.runs) < self.matching:
            cut = f", the last {len(self.runs):,} of them here" if len(self.runs) < self.matching else ""
            lines.append(("match", f"{self.matching:,} of {counted(sum(self.counts.values()), 'run')}{cut}"))
        if self.runs:
            lines.append(_HEADER)
            lines += [(run.key[:8], _line(run, self.more.get(run.key, _More()))) for run in self.runs]
        return lines if self.out is None else [*lines, ("written", f"{counted(self.matching, 'run')} to {self.out}")]


@dataclass(frozen=True)
class WholeRecord(Result):
    """The whole record of one run, which prints as JSON."""

    record: Record

    def to_dict(self) -> dict[str, Any]:
        """Return the record."""
        return self.record.to_dict()

    def lines(self) -> Lines:
        """Return the record as one line of JSON."""
        return [("", str(self))]

    def __str__(self) -> str:
        """Write the record as JSON."""
        return visible(json.dumps(self.to_dict(), ensure_ascii=False))


@dataclass(frozen=True)
class ModelSource(Result):
    """The source text of a user's own model, as it was when its run was planned.

    Args:
        model: the name under which it was given.
        sha256: of the text, part of the run's identity.
        text: of the whole file, or of the classes.
    """

    model: str
    sha256: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the text, its hash and the model's name."""
        return {"model": self.model, "sha256": self.sha256, "source": self.text}

    def lines(self) -> Lines:
        """Return the lines of the text."""
        return [("", line) for line in self.text.splitlines()]

    def __str__(self) -> str:
        """Write the text as it is."""
        return self.text


@dataclass(frozen=True)
class Merge(Result):
    """Runs that a store took from others.

    Args:
        store: the directory of the store that took them.
        added: how many were new of each source.
        total: how many there are now.
    """

    store: Path
    added: Mapping[str, int]
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {"store": str(self.store), "added": dict(self.added), "total": self.total}

    def lines(self) -> Lines:
        """Return the counts for a reader."""
        lines = [(source, counted(count, "new run")) for source, count in self.added.items()]
        return [*lines, ("in all", counted(self.total, "run"))]


def runs(
    store: PathLike = "runs",
    status: str | None = None,
    task: str | None = None,
    model: str | None = None,
    recipe: str | None = None,
    seed: int | None = None,
    key: str | None = None,
    source: bool = False,
    limit: int = 20,
    out: PathLike | None = None,
) -> "Listing | WholeRecord | ModelSource | Run":
    """List, filter and export the runs of a store.

    Args:
        store: the store's directory
        status: only runs that are done, stopped, diverged or failed
        task: only runs on this task
        model: only runs of this model
        recipe: only runs by this recipe
        seed: only runs with this seed
        key: the whole record of the one run whose key begins like this
        source: with a key, the source text of a model of one's own
        limit: show so many at most; 0 for all
        out: write them to .csv, .parquet, .jsonl or .jsonl.gz; with a key, any other name is that of a run directory
    """
    given = {"status": status, "task": task, "model": model, "recipe": recipe, "seed": seed}
    equal = {name: value for name, value in given.items() if value is not None}
    if status is not None and status not in STATUSES:
        raise unknown_name("status", status, STATUSES)
    check_least("limit", limit, 0)
    if source and key is None:
        raise StoreError("source is of one run; give its key too")
    file = path_of(out)
    # one run may be written as a directory of its own
    write = None if file is None or (key is not None and not is_table(file)) else exporter(file)
    with Store.open(Path(store)) as opened:
        if key is not None:
            record = opened.find(key)
            if source:
                return _source(opened, record)
            if file is not None and write is None:
                from statewise.runs.weights import export_run

                export_run(open_stored(opened, record), file)
                return load(file)
            if write is not None:
                write(lambda: [record])
            return WholeRecord(record)
        counts, matching = opened.counts(), opened.count(**equal)
        if write is not None:
            # filters hold for the file; only what is shown is limited
            write(lambda: opened.records(**equal))
        rows = opened.rows(limit or None, **equal)
        more = {row.key: _more(opened.record(row.key)) for row in rows}
    return Listing(Path(store), counts, matching, bool(equal), tuple(rows), more, file)


def merge(into: PathLike, sources: Sequence[PathLike]) -> Merge:
    """Add every run that the first store does not have; the others stay as they are.

    Args:
        into: the store that runs are added to; begun if there is none
        sources: stores, run directories, or .jsonl and .jsonl.gz files
    """
    directory, others = Path(into), [Path(source) for source in sources]
    for other in others:
        if other.resolve() == directory.resolve():
            raise StoreError(f'"{shorten(other)}" is both taken from and into; name another')
        if not other.exists():
            raise StoreError(f'"{shorten(other)}" does not exist; expected a store, a run or a .jsonl file')
    with ExitStack() as held:
        # all are read before a store is begun for them
        read = {str(other): _read(other, held) for other in others}
        counts, total = merge_into(directory, list(read.values()))
    return Merge(directory, dict(zip(read, counts, strict=True)), total)


def _read(source: Path, held: ExitStack) -> Store | RunFiles | list[Record]:
    if source.is_dir() and (source / RECORD).exists():
        return run_files(source)
    return held.enter_context(Store.open(source)) if source.is_dir() else list(read_records(source))


def _source(store: Store, record: Record) -> ModelSource:
    options, text = record.config, source_of(store, record)
    if options.source is None or text is None:
        why = "is none of a user's own" if options.source is None else "has a source that was too long to be kept"
        raise StoreError(f"the model of this run, {shorten(options.model)}, {why}; choose another run")
    return ModelSource(options.model, options.source, text.decode(errors="replace"))


def _more(record: Record | None) -> _More:
    if record is None:
        return _More()
    found, failed = constants_of(record), record.status == "failed"
    reason = (record.reason or "") if failed else None
    return _More(found.get("score_id"), found.get("score_ood"), record.config.loss, reason)


def _line(run: StoredRun, more: _More) -> str:
    numbers = (run.score_id, more.constant_id, run.score_ood, more.constant_ood)
    shown = "  ".join("-".rjust(8) if number is None else f"{number:8.3f}" for number in numbers)
    what = f"{shorten(run.task, 44)}  {shorten(run.model, 24)}  {shorten(run.recipe, 24)}"
    loss = "" if more.loss is None else f"  {more.loss}"
    options = f"H {run.hidden}{loss}  lr {run.lr:g}  seed {run.seed}"
    why = "" if more.reason is None else f"  ({shorten(more.reason, 120)})"
    return f"{run.status:8}  {shown}  {_moment(run.finished):16}  {what}  {options}{why}"


def _moment(finished: float | None) -> str:
    try:
        return "" if finished is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(finished))
    except (ValueError, OverflowError, OSError):
        # the columns of a store may hold what is no time
        return "-"
