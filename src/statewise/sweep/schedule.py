"""The coordinator: hand out packs, record what comes back, attempt again what died."""

import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from statewise.errors import StoreWriteError, shorten
from statewise.interruption import Interrupted
from statewise.runs.record import Record
from statewise.store import Store
from statewise.sweep.engine import Died, Done, Engine, Event, Lost, Progressed, Stuck
from statewise.sweep.jobs import Job
from statewise.sweep.packs import Pack
from statewise.sweep.work import failed_record
from statewise.wording import counted

WORK = "work"
_MOST_RETRIES = 3
# of what a pack runs on, which costs none of its attempts
_MOST_LOSSES = 7
_LOSING = f"what runs one pack was lost {_MOST_LOSSES + 1} times"
_PATIENCE = 1.0


@dataclass
class Progress:
    """How far a sweep is.

    Args:
        total: runs that were to be done.
        cost: seconds of work expected of all.
        statuses: how many ended how, in this sweep.
        done_cost: seconds of work expected of the runs that have ended.
        shares: seconds of work expected of what is done of each pack under way, by its identity.
        began: when the sweep did, on the monotonic clock.
    """

    total: int
    cost: float
    statuses: Counter[str] = field(default_factory=Counter)
    done_cost: float = 0.0
    shares: dict[int, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """How many runs have ended."""
        return sum(self.statuses.values())

    @property
    def share(self) -> float:
        """The share of all work that is done, by cost, or by number if nothing costs anything."""
        if not self.cost:
            return self.done / self.total if self.total else 1.0
        return min(1.0, (self.done_cost + sum(self.shares.values())) / self.cost)

    @property
    def seconds(self) -> float:
        """How long the sweep has been going."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """How long it will go on, by the pace so far."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0 else None


ShowProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Summary:
    """What a sweep did: how many runs there were to do, and how many ended how."""

    total: int
    statuses: dict[str, int]
    seconds: float


def run_packs(
    store: Store, packs: Sequence[Pack], engine: Engine, show: ShowProgress, whole: Progress | None = None
) -> Summary:
    """Do packs of runs on an engine, and record each run once, as it ends.

    Args:
        store: open to be written.
        packs: of runs.
        engine: what does them.
        show: called with the progress, about once a second.
        whole: the progress of more than these packs, which they are a part of.
    """
    progress = whole or Progress(sum(len(pack.jobs) for pack in packs), sum(pack.seconds for pack in packs))
    waiting = deque(packs)
    # runs of each pack under way that have not been recorded yet
    open_jobs: dict[int, set[str]] = {}
    while waiting or engine.busy:
        while waiting and engine.free:
            pack = waiting.popleft()
            open_jobs[id(pack)] = {job.key for job in pack.jobs}
            engine.start(pack)
        for event in engine.wait(_PATIENCE):
            _note(store, event, open_jobs, waiting, progress)
        show(progress)
    return Summary(progress.total, dict(progress.statuses), progress.seconds)


@contextmanager
def going_on_later(store: Store) -> Iterator[None]:
    """Let an interruption of a sweep say what its store has."""
    try:
        yield
    except KeyboardInterrupt as stop:
        count = sum(store.counts().values())
        kept = f'{counted(count, "run")} recorded in "{shorten(store.directory)}", those under way saved'
        raise Interrupted.of(stop, f"{kept}; the same command goes on from there") from None


def clean(store: Store) -> None:
    """Remove what runs kept that have been recorded since, where a kill came between the two."""
    folder = work_folder(store.directory)
    if folder.is_dir():
        recorded = store.keys(failed=False)
        for left in folder.iterdir():
            if left.name in recorded:
                shutil.rmtree(left, ignore_errors=True)


def work_folder(directory: Path) -> Path:
    """Return where the runs of a store's sweep keep their checkpoints."""
    return directory / WORK


def not_done(store: Store, jobs: Sequence[Job], retry_failed: bool = False) -> list[Job]:
    """Return the runs that the store does not have, each once."""
    known = store.keys(failed=not retry_failed)
    left: dict[str, Job] = {}
    for job in jobs:
        if job.key not in known:
            left.setdefault(job.key, job)
    return list(left.values())


def _note(store: Store, event: Event, open_jobs: dict[int, set[str]], waiting: deque[Pack], progress: Progress) -> None:
    pack = event.pack
    each = pack.seconds / len(pack.jobs)
    match event:
        case Progressed(share=share):
            progress.shares[id(pack)] = share * each * len(open_jobs[id(pack)])
        case Done(runs=runs, last=last):
            records = {run.record.key: run.record for run in runs if run.record.key is not None}
            weights = {run.record.key: run.weights for run in runs if run.record.key and run.weights is not None}
            _record(store, list(records.values()), weights, progress, each, _texts(pack))
            open_jobs[id(pack)] -= records.keys()
            if last:
                del open_jobs[id(pack)]
                progress.shares.pop(id(pack), None)
        case Stuck(reason=reason):
            raise StoreWriteError(f"{reason}; the runs recorded so far stay; start again then")
        case Lost(reason=reason):
            left = open_jobs.pop(id(pack))
            progress.shares.pop(id(pack), None)
            if pack.losses >= _MOST_LOSSES:
                raise StoreWriteError(f"{_LOSING} ({reason}); the runs recorded so far stay; start again then")
            waiting.appendleft(pack.again(left))
        case Died(reason=reason):
            left = open_jobs.pop(id(pack))
            progress.shares.pop(id(pack), None)
            if pack.attempt >= _MOST_RETRIES:
                lost = [job for job in pack.jobs if job.key in left]
                why = f"{reason}, {_MOST_RETRIES + 1} times"
                _record(store, [failed_record(job, why) for job in lost], {}, progress, each)
            else:
                waiting.extendleft(reversed(pack.split(left)))


def _texts(pack: Pack) -> set[bytes]:
    """Return what is kept beside the records of a pack: machines and models that came from files."""
    machines = {job.machine.encode() for job in pack.jobs if job.machine is not None}
    return machines | {job.source.kept for job in pack.jobs if job.source is not None and job.source.kept is not None}


def _record(
    store: Store,
    records: Sequence[Record],
    weights: dict[str, bytes],
    progress: Progress,
    each: float,
    texts: Iterable[bytes] = (),
) -> None:
    if not records:
        return
    store.add(records, weights, texts)
    progress.statuses.update(record.status for record in records)
    progress.done_cost += each * len(records)
    folder = work_folder(store.directory)
    if not folder.is_dir():
        return
    for record in records:
        # what a run kept in order to be resumed is of no use once it is recorded; one that failed may be tried again
        if record.status != "failed":
            shutil.rmtree(folder / str(record.key), ignore_errors=True)
