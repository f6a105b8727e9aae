"""What a worker does with a pack: train its runs in directories of their own, and hand over each as it ends."""

import ctypes
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statewise.errors import BusyError, CheckpointWriteError, FileError, StatewiseError
from statewise.machines.machine_files import from_json
from statewise.runs.directory import open_directory
from statewise.runs.record import FORMAT, Record
from statewise.store import small_weights
from statewise.sweep.jobs import Job
from statewise.sweep.judging import judged
from statewise.sweep.packs import Pack

if TYPE_CHECKING:
    from statewise.runs import PlannedRun, Run
    from statewise.training import Metrics

# the disk takes no more, or another process is in the directory, which is no fault of the run
BLOCKED = (CheckpointWriteError, FileError, BusyError)
# how long a worker that has lost its coordinator may hold a directory, in seconds
_PATIENCE = 60.0
# glibc's names for what mallopt sets
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@dataclass(frozen=True)
class FinishedRun:
    """The record of a run that has ended, with its key, and its weights as safetensors if they are small."""

    record: Record
    weights: bytes | None = None


# called with the share of a pack that is done, from 0 to 1
ShowShare = Callable[[float], None]
# what an engine's workers do with each pack, in a folder for what runs keep until they are recorded
Work = Callable[[Pack, Path, ShowShare], Iterator[list[FinishedRun]]]


def work(pack: Pack, folder: Path, show: ShowShare) -> Iterator[list[FinishedRun]]:
    """Do the runs of a pack, each in a directory named by its key, from which a later attempt resumes it."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    # NumPy's products and decompositions, when networks are polished and judged
    threadpool_limits(1, user_api="blas")
    _keep_memory()
    plans: dict[str, PlannedRun] = {}
    for job in pack.jobs:
        try:
            plans[job.key] = _plan(job, folder, pack.device)
        except BLOCKED:
            raise
        except StatewiseError as error:
            yield [FinishedRun(failed_record(job, str(error)))]
    able = [job for job in pack.jobs if job.key in plans]
    shares = dict.fromkeys(plans, 0.0)

    def show_step(job: Job, metrics: "Metrics", steps: int) -> None:
        shares[job.key] = metrics.step / steps
        show(sum(shares.values()) / len(shares))

    together = [able] if able and able[0].stacked else [[job] for job in able]
    for jobs in together:
        yield from _train(jobs, [plans[job.key] for job in jobs], show_step)


def failed_record(job: Job, reason: str) -> Record:
    """Return the record of a run that could not be done."""
    return Record(
        format=FORMAT, key=job.key, status="failed", config=job.options, reason=reason, finished=round(time.time(), 1)
    )


def _plan(job: Job, folder: Path, device: str) -> "PlannedRun":
    """Plan a run, once it is known that it can be built; discard what an earlier attempt left damaged."""
    from statewise.runs import PlannedRun
    from statewise.training import build_training, check_lengths, read_checkpoint

    kept, own = None if job.machine is None else from_json(job.machine), job.own
    training = build_training(job.options, kept, own)
    check_lengths(training.model.longest, training.task, job.options.evaluation)
    directory, task_source = folder / job.key, training.task.source
    source = None if job.source is None else job.source.kept
    with _soon_held(directory):
        try:
            open_directory(directory, job.options, task_source, source)
            read_checkpoint(directory)
        except BLOCKED:
            raise
        except StatewiseError:
            shutil.rmtree(directory, ignore_errors=True)
    return PlannedRun(job.options, directory, task_source, own, source, device)


@contextmanager
def _soon_held(directory: Path) -> Iterator[None]:
    """Hold a run's directory, if need be once the worker of an earlier coordinator has ended there."""
    from statewise.runs import held_directory

    deadline = time.monotonic() + _PATIENCE
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(held_directory(directory))
                break
            except BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield


def _train(
    jobs: Sequence[Job], plans: Sequence["PlannedRun"], show: Callable[[Job, "Metrics", int], None]
) -> Iterator[list[FinishedRun]]:
    from statewise.runs import execute

    try:
        for member, run in execute(plans, lambda member, metrics, steps: show(jobs[member], metrics, steps)):
            yield [_finished(jobs[member], _judged_and_polished(run), len(jobs))]
    except BLOCKED:
        raise
    except StatewiseError as error:
        # of several, the one at fault is found when they are attempted one by one
        if len(jobs) > 1:
            raise
        yield [FinishedRun(failed_record(jobs[0], str(error)))]


def _judged_and_polished(run: "Run") -> "Run":
    """Judge and polish a run whose options ask for it."""
    options = run.options
    if options is not None and options.certify:
        from statewise.theory.certify.recording import certify_recorded

        run = certify_recorded(run)
    if options is not None and options.polish:
        from statewise.theory.polish.recording import polish_recorded

        run = polish_recorded(run)
    return run


def _finished(job: Job, run: "Run", shared: int) -> FinishedRun:
    """Add what a sweep knows: the key, and how many runs shared the seconds of one."""
    assert run.record is not None
    assert run.path is not None
    record = run.record.model_copy(update={"key": job.key, "shared": shared})
    weights = None if record.status == "diverged" else small_weights(run.path)
    return FinishedRun(judged(record, run) if weights is None else record, weights)


def _keep_memory() -> None:
    """Return to the system what earlier packs have left, and let the allocator keep what steps of this one free.

    Each step frees large tensors and asks for as many again; handed back to the system in between, their pages would be
    cleared anew every time.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    # other C libraries of Linux have neither
    if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
