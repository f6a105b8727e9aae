"""Work for engines that does as a test says, in place of training.

What a job does is the text of its task, which nothing parses as a machine on this path:

    fake: nothing            ends at once
    fake: sleep 0.01         ends after so many seconds
    fake: wait FILE          ends once the file exists
    fake: crash              takes its worker down
    fake: hang               never ends
    fake: save FILE          writes the file once it is under way, and "saved" into it when it is asked to end
    fake: allocate 1200      takes so many megabytes, and never ends

Jobs on other tasks are done by the real work.
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statewise.runs import Record
from statewise.sweep import FinishedRun, Job, Pack
from statewise.sweep.work import ShowShare, work

_PREFIX = "fake: "
_held: list[Any] = []


def fake_work(pack: Pack, folder: Path, show: ShowShare) -> Iterator[list[FinishedRun]]:
    """Do as tasks say, each job by itself, then what is real."""
    for job in filter(is_fake, pack.jobs):
        _act(*job.options.task.removeprefix(_PREFIX).split(" ", 1))
        yield [FinishedRun(_record(job))]
    real = tuple(job for job in pack.jobs if not is_fake(job))
    if real:
        yield from work(Pack(real, pack.seconds, pack.attempt), folder, show)


def is_fake(job: Job) -> bool:
    """Return whether a job trains nothing."""
    return job.options.task.startswith(_PREFIX)


def _act(name: str, value: str = "") -> None:
    match name:
        case "sleep":
            time.sleep(float(value))
        case "wait":
            while not Path(value).exists():
                time.sleep(0.02)
        case "crash":
            os._exit(9)
        case "hang":
            threading.Event().wait()
        case "save":
            Path(value).write_text("begun")
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                Path(value).write_text("saved")
                raise
        case "allocate":
            _held.append(bytearray(int(value) << 20))
            threading.Event().wait()
        case _:
            assert name == "nothing", name


def _record(job: Job) -> Record:
    return Record(
        key=job.key, status="done", config=job.options, steps=0, seconds=0.0, shared=1, finished=round(time.time(), 1)
    )
