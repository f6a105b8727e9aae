"""`statewise runs` and `statewise store`: what a store holds, and stores put together."""

import csv
import gzip
import io
import json as json_module
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import FileError, StoreError, shorten
from statewise.files import reason_of, write_bytes_whole
from statewise.machines.catalogue import from_file
from statewise.store import COLUMNS, Store, check_record, key_of

store_app = typer.Typer(help="Put stores together.", no_args_is_help=True, rich_markup_mode=None)
_NAMES = ("key", *COLUMNS)


def runs(
    store: Annotated[Path, typer.Argument(help="The store's directory.")] = Path("runs"),
    status: Annotated[str | None, typer.Option(help="Only runs that are done, stopped, diverged or failed.")] = None,
    task: Annotated[str | None, typer.Option(metavar="MACHINE", help="Only runs on this task.")] = None,
    model: Annotated[str | None, typer.Option(help="Only runs of this model.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Only runs by this recipe.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only runs with this seed.")] = None,
    key: Annotated[str | None, typer.Option(help="The whole record of one run.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many at most; 0 for all.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Write them to .csv, .parquet, .jsonl or .jsonl.gz.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List, filter and export the runs of a store."""
    given = {"status": status, "task": task, "model": model, "recipe": recipe, "seed": seed}
    equal = {name: value for name, value in given.items() if value is not None}
    write = None if out is None else _writer(out)
    with Store.open(store) as opened:
        if key is not None:
            _show_one(opened, key)
            return
        counts = opened.counts()
        if out is not None and write is not None:
            # filters hold for the file; only what is shown is limited
            write(opened, equal)
        rows = [_explained(opened, row) for row in opened.rows(limit or None, **equal)]
    result: dict[str, Any] = {"store": str(store), "counts": counts, "runs": rows}
    result |= {"out": str(out)} if out is not None else {}
    if json:
        show(result, True, [])
        return
    total = ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "no runs"
    lines = [("store", f"{store}: {total}"), *((row["key"][:8], _written(row)) for row in rows)]
    show(result, False, lines + ([("written", str(out))] if out is not None else []))


@store_app.command("merge")
def merge(
    into: Annotated[Path, typer.Argument(help="The store that takes runs; begun where there is none.")],
    sources: Annotated[list[Path], typer.Argument(help="Stores, run directories, or .jsonl and .jsonl.gz files.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take every run over that the first store has not; the others stay as they are."""
    for source in sources:
        if source.resolve() == into.resolve():
            raise StoreError(f'"{shorten(source)}" is both taken from and into; name another')
        if not source.exists():
            raise StoreError(f'"{shorten(source)}" does not exist; expected a store, a run or a .jsonl file')
    added = {}
    with Store.open(into, write=True) as opened:
        for source in sources:
            added[str(source)] = _take(opened, source)
        total = sum(opened.counts().values())
    lines = [(source, f"{count:,} new runs") for source, count in added.items()]
    show({"store": str(into), "added": added, "total": total}, json, [*lines, ("in all", f"{total:,} runs")])


def read_records(file: Path) -> Iterator[dict[str, Any]]:
    """Reads records from a .jsonl or .jsonl.gz file, one to a line."""
    try:
        content = file.read_bytes()
        text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
        # other ends of lines may stand in names
        for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
            record = json_module.loads(line)
            try:
                check_record(record)
            except StoreError as error:
                raise StoreError(f'line {number} of "{shorten(file)}": {error}') from None
            yield record
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f'cannot read "{shorten(file)}": {shorten(reason_of(error))}; give a .jsonl file') from None


def _take(store: Store, source: Path) -> int:
    if source.is_dir() and (source / "record.json").exists():
        return store.add([read_run(source)])
    if source.is_dir():
        with Store.open(source) as other:
            return store.merge(other)
    return store.add(read_records(source))


def read_run(directory: Path) -> dict[str, Any]:
    """Reads the record of one run's directory, as `statewise train` leaves it."""
    file = directory / "record.json"
    try:
        record = json_module.loads(file.read_text())
        kept = (directory / "machine.json").read_text() if from_file(record["config"]["task"]) else None
        return {"key": key_of(record["config"], kept), **record, "finished": round(file.stat().st_mtime, 1)}
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f'"{shorten(file)}" is no record of a run; give the directory of a finished run') from None


def _show_one(store: Store, key: str) -> None:
    found = store.begins_with(key)
    if len(found) != 1:
        what = "no run" if not found else f"{len(found)} runs"
        raise StoreError(f'{what} of "{shorten(store.directory)}" have a key that begins with "{shorten(key)}"')
    print(json_module.dumps(store.record(found[0]), ensure_ascii=False))


def _explained(store: Store, row: dict[str, Any]) -> dict[str, Any]:
    """Gives a row with the reason of a run that failed."""
    return {**row, "reason": store.record(row["key"]).get("reason", "")} if row["status"] == "failed" else row


def _written(row: dict[str, Any]) -> str:
    numbers = "  ".join(
        f"{row[name]:6.3f}" if row[name] is not None else "     -" for name in ("score_id", "score_ood")
    )
    when = "" if row["finished"] is None else time.strftime("  %Y-%m-%d %H:%M", time.localtime(row["finished"]))
    lr = "-" if row["lr"] is None else f"{row['lr']:g}"
    what = f"{shorten(row['task'], 44)}  {shorten(row['model'], 24)}  {row['recipe']}  lr {lr}  seed {row['seed']}"
    why = f"  ({shorten(row['reason'], 120)})" if "reason" in row else ""
    return f"{row['status']:8}  {numbers}{when}  {what}{why}"


def _writer(out: Path) -> Callable[[Store, dict[str, Any]], None]:
    for ending, write in _WRITERS.items():
        if out.name.endswith(ending):
            return lambda store, equal: write_bytes_whole(out, write(store, equal))
    raise FileError(f'"{shorten(out)}" is not a .csv, .parquet, .jsonl or .jsonl.gz file; choose one of these endings')


def _as_csv(store: Store, equal: dict[str, Any]) -> bytes:
    made = io.StringIO()
    writer = csv.DictWriter(made, list[str](_NAMES))
    writer.writeheader()
    writer.writerows(store.rows(**equal))
    return made.getvalue().encode()


def _as_parquet(store: Store, equal: dict[str, Any]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise FileError("a .parquet file needs the package pyarrow; install statewise[parquet], or use .csv") from None
    texts = ("key", "status", "task", "model", "recipe")
    wholes = ("seed", "hidden", "steps")
    kinds = [
        (n, pyarrow.string() if n in texts else pyarrow.int64() if n in wholes else pyarrow.float64()) for n in _NAMES
    ]
    made = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(store.rows(**equal), schema=pyarrow.schema(kinds)), made)
    return made.getvalue().to_pybytes()


def _as_lines(store: Store, equal: dict[str, Any]) -> bytes:
    return "".join(_line(record) for record in store.records(**equal)).encode()


def _as_packed_lines(store: Store, equal: dict[str, Any]) -> bytes:
    # without a time in its head, the same records give the same file
    return gzip.compress(_as_lines(store, equal), mtime=0)


def _line(record: dict[str, Any]) -> str:
    return json_module.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n"


_WRITERS: dict[str, Callable[[Store, dict[str, Any]], bytes]] = {
    ".csv": _as_csv,
    ".parquet": _as_parquet,
    ".jsonl": _as_lines,
    ".jsonl.gz": _as_packed_lines,
}
