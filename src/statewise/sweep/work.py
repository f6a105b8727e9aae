"""What a worker does with a pack: runs it in directories of its own, and gives records as they come."""

import ctypes
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.errors import CheckpointWriteError, FileError, RunError, StatewiseError
from statewise.expressions import Call, parse
from statewise.machines.files import from_json
from statewise.sweep.packs import Job, Pack

# these say that the disk takes no more, which is no fault of the run
OUT_OF_SPACE = (CheckpointWriteError, FileError)
# null runs whose records are handed over together
_TOLD_AT_ONCE = 50
# glibc's names for what mallopt sets
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
# told how much of a pack is done, from 0 to 1
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Result:
    """The record of a run that has ended, with its key, and its weights as safetensors if they are small."""

    record: dict[str, Any]
    weights: bytes | None = None


def work(pack: Pack, folder: Path, tell: Tell) -> Iterator[list[Result]]:
    """Does the runs of a pack, each in a directory named by its key, from which a later try takes it up."""
    empty = [job for job in pack.jobs if job.null]
    for first in range(0, len(empty), _TOLD_AT_ONCE):
        yield [Result(_nothing(job)) for job in empty[first : first + _TOLD_AT_ONCE]]
    real = [job for job in pack.jobs if not job.null]
    if real:
        _keep_memory()
        yield from _train(real, folder, tell)


def _keep_memory() -> None:
    """Gives back what earlier packs have left, and lets the allocator keep what steps of this one free.

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


def failed(job: Job, reason: str) -> dict[str, Any]:
    """Gives the record of a run that could not be done."""
    return {
        "key": job.key,
        "status": "failed",
        "config": job.config,
        "reason": reason,
        "finished": round(time.time(), 1),
    }


def _nothing(job: Job) -> dict[str, Any]:
    """Does a null run: `null`, `null(seconds=0.5)`, or one that takes its worker down, `null(crash=true)`."""
    asked = parse(job.config["task"])
    given = asked.kwargs if isinstance(asked, Call) else {}
    began = time.perf_counter()
    seconds, megabytes = given.get("seconds", 0), given.get("megabytes", 0)
    held = bytearray(int(megabytes) << 20) if isinstance(megabytes, int | float) else bytearray()
    if isinstance(seconds, int | float) and seconds > 0:
        time.sleep(seconds)
    if given.get("crash"):
        os._exit(9)
    del held
    took = round(time.perf_counter() - began, 4)
    done = {"status": "done", "config": job.config, "steps": 0, "seconds": took, "shared": 1}
    return {"key": job.key, **done, "finished": round(time.time(), 1)}


def _train(jobs: Sequence[Job], folder: Path, tell: Tell) -> Iterator[list[Result]]:
    import torch

    from statewise.runs.run import Look, Story
    from statewise.training.ensemble import run_together

    torch.set_num_threads(1)
    stories: dict[str, Story] = {}
    for job in jobs:
        try:
            stories[job.key] = _story(job, folder)
        except OUT_OF_SPACE:
            raise
        except StatewiseError as error:
            yield [Result(failed(job, str(error)))]
    able = [job for job in jobs if job.key in stories]
    shares = [0.0] * len(able)

    def note(member: int, look: Look, steps: int) -> None:
        shares[member] = look.step / steps
        tell(sum(shares) / len(shares))

    if able and able[0].stacked:
        records = run_together([stories[job.key] for job in able], note)
        yield [_result(job, stories[job.key], record, len(able)) for job, record in zip(able, records, strict=True)]
        return
    for job in able:
        yield [_alone(job, stories[job.key], lambda look, steps: note(0, look, steps))]


def _story(job: Job, folder: Path) -> Any:
    from statewise.runs.run import Story, open_directory
    from statewise.training.assemble import build_plan, build_training
    from statewise.training.checkpoints import read_checkpoint

    kept = None if job.machine is None else from_json(job.machine)
    training, directory = build_training(job.config, kept), folder / job.key
    try:
        open_directory(directory, job.config, training.task.machine)
        read_checkpoint(directory)
    except CheckpointWriteError:
        raise
    except RunError:
        # what an earlier try left there is of no use
        shutil.rmtree(directory, ignore_errors=True)
    return Story(training, build_plan(job.config), job.config, directory)


def _alone(job: Job, story: Any, note: Callable[[Any, int], None]) -> Result:
    from statewise.runs.run import run

    try:
        record = run(story.training, story.plan, story.config, story.directory, note)
    except OUT_OF_SPACE:
        raise
    except StatewiseError as error:
        return Result(failed(job, str(error)))
    return _result(job, story, record, 1)


def _result(job: Job, story: Any, record: dict[str, Any], shared: int) -> Result:
    """Adds what a sweep knows: the key, when the run ended, and how many runs shared its seconds."""
    whole = {"key": job.key, **record, "shared": shared, "finished": round(time.time(), 1)}
    return Result(whole, None if record["status"] == "diverged" else small_weights(story.directory))


def small_weights(directory: Path) -> bytes | None:
    """Gives the trained weights of a run as its directory has them, whichever try it was that ended it."""
    from safetensors.torch import save

    from statewise.store import LARGEST_WEIGHTS
    from statewise.training.checkpoints import read_checkpoint

    saved = read_checkpoint(directory)
    if saved is None:
        return None
    tensors = {name.removeprefix("model."): value for name, value in saved[0].items() if name.startswith("model.")}
    if sum(value.numel() * value.element_size() for value in tensors.values()) >= LARGEST_WEIGHTS:
        return None
    return save(tensors)
