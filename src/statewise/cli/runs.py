"""`statewise runs` and `statewise store`: what a store holds, and stores put together."""

import gzip
import json as json_module
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import StoreError, shorten, unknown_name
from statewise.files import reason_of
from statewise.machines.catalogue import from_file
from statewise.store import STATUSES, Store, check_record, key_of, merge_into
from statewise.store.export import exporter
from statewise.wording import counted

store_app = typer.Typer(help="Put stores together.", no_args_is_help=True, rich_markup_mode=None)
_HEADER = ("key", f"{'status':8}  {'train':>6}  {'long':>6}  {'finished':16}  task  model  recipe  options")


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
    if status is not None and status not in STATUSES:
        raise unknown_name("status", status, STATUSES)
    write = None if out is None else exporter(out)
    with Store.open(store) as opened:
        if key is not None:
            record = _one(opened, key)
            if write is not None:
                write(lambda: [record])
            print(json_module.dumps(record, ensure_ascii=False))
            return
        counts, matching = opened.counts(), opened.count(**equal)
        if write is not None:
            # filters hold for the file; only what is shown is limited
            write(lambda: opened.records(**equal))
        rows = [_explained(opened, row) for row in opened.rows(limit or None, **equal)]
    result: dict[str, Any] = {"store": str(store), "counts": counts, "matching": matching, "runs": rows}
    result |= {"out": str(out)} if out is not None else {}
    if json:
        show(result, True, [])
        return
    total = ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "no runs"
    lines = [("store", f"{store}: {total}")]
    if equal or len(rows) < matching:
        cut = f", the last {len(rows):,} of them here" if len(rows) < matching else ""
        lines.append(("match", f"{matching:,} of {counted(sum(counts.values()), 'run')}{cut}"))
    lines += [_HEADER, *((row["key"][:8], _written(row)) for row in rows)] if rows else []
    show(result, False, lines + ([("written", f"{counted(matching, 'run')} to {out}")] if out is not None else []))


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
    with ExitStack() as held:
        # all are read before a store is begun for them
        taken = {str(source): _read(source, held) for source in sources}
        counts, total = merge_into(into, list(taken.values()))
    added = dict(zip(taken, counts, strict=True))
    lines = [(source, counted(count, "new run")) for source, count in added.items()]
    show({"store": str(into), "added": added, "total": total}, json, [*lines, ("in all", counted(total, "run"))])


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
                _check_foreign(record)
            except StoreError as error:
                raise StoreError(f'line {number} of "{shorten(file)}": {error}') from None
            yield record
    except RecursionError:
        raise StoreError(f'"{shorten(file)}" nests too deep; expected records of runs; give another file') from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f'cannot read "{shorten(file)}": {shorten(reason_of(error))}; give a .jsonl file') from None


def _check_foreign(record: dict[str, Any]) -> None:
    """Refuses what no run of ours would have written."""
    # a machine's file, which is part of the key, is not in the record
    if not from_file(str(record["config"].get("task"))) and record["key"] != key_of(record["config"]):
        raise StoreError(f'the key "{shorten(record["key"], 40)}" is not that of its config; leave the record out')


def _read(source: Path, held: ExitStack) -> Store | list[dict[str, Any]]:
    if source.is_dir() and (source / "record.json").exists():
        return [read_run(source)]
    return held.enter_context(Store.open(source)) if source.is_dir() else list(read_records(source))


def read_run(directory: Path) -> dict[str, Any]:
    """Reads the record of one run's directory, as `statewise train` leaves it."""
    file = directory / "record.json"
    try:
        record = json_module.loads(file.read_text())
        kept = (directory / "machine.json").read_text() if from_file(str(record["config"]["task"])) else None
        found = {"key": key_of(record["config"], kept), **record, "finished": round(file.stat().st_mtime, 1)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f'"{shorten(file)}" is no record of a run; give the directory of a finished run') from None
    try:
        check_record(found)
    except StoreError as error:
        raise StoreError(f'"{shorten(file)}": {error}') from None
    return found


def _one(store: Store, key: str) -> dict[str, Any]:
    found = store.begins_with(key)
    record = store.record(found[0]) if len(found) == 1 else None
    if record is None:
        what = f"{len(found):,} runs" if found else "no run"
        where = f'of "{shorten(store.directory)}" with a key that begins with "{shorten(key)}"'
        raise StoreError(f"there {'are' if found else 'is'} {what} {where}; give the key of one")
    return record


def _explained(store: Store, row: dict[str, Any]) -> dict[str, Any]:
    """Gives a row with the reason of a run that failed."""
    record = store.record(row["key"]) if row["status"] == "failed" else None
    return row if record is None else {**row, "reason": record.get("reason", "")}


def _written(row: dict[str, Any]) -> str:
    numbers = "  ".join(
        f"{row[name]:6.3f}" if row[name] is not None else "     -" for name in ("score_id", "score_ood")
    )
    lr = "-" if row["lr"] is None else f"{row['lr']:g}"
    what = f"{shorten(row['task'], 44)}  {shorten(row['model'], 24)}  {shorten(row['recipe'], 24)}"
    options = f"H {row['hidden']}  lr {lr}  seed {row['seed']}"
    why = f"  ({shorten(row['reason'], 120)})" if "reason" in row else ""
    return f"{row['status']:8}  {numbers}  {_moment(row['finished']):16}  {what}  {options}{why}"


def _moment(finished: int | float | None) -> str:
    try:
        return "" if finished is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(finished))
    except (ValueError, OverflowError, OSError):
        # a store of an earlier version may have taken what is no time
        return "-"
