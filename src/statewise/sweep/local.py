"""The engine of one machine: worker processes, started by spawn and kept alive, one torch thread each."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from statewise.interruption import Interrupted, listen
from statewise.sweep.engine import Died, Done, Event, Limits, Progressed, Stuck
from statewise.sweep.packs import Pack
from statewise.sweep.work import BLOCKED, Work, work

_PAGE = os.sysconf("SC_PAGE_SIZE")
# how often a worker checks that its parent is there, in seconds
_WATCH = 0.5
_PR_SET_PDEATHSIG = 1
# how long workers have to save what they are training, in seconds
_SAVING = 20.0


# what a worker's last message about a pack means
_ENDS: dict[str, Callable[[Pack, Any], Event]] = {
    "end": lambda pack, runs: Done(pack, runs, last=True),
    "died": Died,
    "stuck": Stuck,
}


@dataclass
class _Worker:
    process: Any
    pipe: Any
    pack: Pack | None = None
    # when it began with the pack
    began: float | None = None
    # which limit it passed, once it has been ended for that
    past: str = ""


class LocalEngine:
    """Worker processes on this machine.

    Args:
        workers: how many.
        folder: in which runs keep their checkpoints until they are recorded.
        limits: of a pack.
        work: what workers do with a pack; a function that can be imported by its name.
    """

    def __init__(self, workers: int, folder: Path, limits: Limits, work: Work = work) -> None:
        self._folder, self._limits, self._work = folder, limits, work
        # a forked child hangs after a parallel torch operation
        self._context = get_context("spawn")
        self._workers = [self._begin() for _ in range(workers)]

    @property
    def free(self) -> int:
        """How many workers have nothing to do."""
        return sum(worker.pack is None for worker in self._workers)

    @property
    def busy(self) -> int:
        """How many workers have a pack."""
        return len(self._workers) - self.free

    def start(self, pack: Pack) -> None:
        """Hand a pack to an idle worker."""
        worker = next(worker for worker in self._workers if worker.pack is None)
        if worker.past or not worker.process.is_alive():
            worker = self._replace(worker)
        worker.pack, worker.began = pack, None
        # one that dies just now is noticed by the next wait
        with suppress(OSError):
            worker.pipe.send(pack)

    def wait(self, seconds: float) -> list[Event]:
        """Return what workers have sent, or that they died."""
        busy = [worker for worker in self._workers if worker.pack is not None]
        waiting = [thing for worker in busy for thing in (worker.pipe, worker.process.sentinel)]
        ready = set(connection.wait(waiting, seconds)) if waiting else set()
        events: list[Event] = []
        for worker in busy:
            if worker.pipe in ready or worker.process.sentinel in ready:
                events += self._receive(worker)
        # after that, since a pack that has ended is past no limit
        self._enforce_limits()
        return events

    def close(self) -> None:
        """End all workers; what those under way have trained is saved, if they do so soon."""
        busy = [worker.process for worker in self._workers if worker.pack is not None]
        for process in busy:
            process.terminate()
        deadline = time.monotonic() + _SAVING
        while any(process.is_alive() for process in busy) and time.monotonic() < deadline:
            connection.wait([process.sentinel for process in busy if process.is_alive()], deadline - time.monotonic())
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def _begin(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        given = (theirs, self._folder, self._work, os.getpid())
        process = self._context.Process(target=_serve, args=given, daemon=True)
        with _without_main():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _replace(self, worker: _Worker) -> _Worker:
        worker.process.join()
        worker.pipe.close()
        new = self._begin()
        self._workers[self._workers.index(worker)] = new
        return new

    def _receive(self, worker: _Worker) -> list[Event]:
        pack = worker.pack
        assert pack is not None
        events: list[Event] = []
        try:
            while worker.pipe.poll():
                kind, value = worker.pipe.recv()
                match kind:
                    case "began":
                        worker.began = time.monotonic()
                    case "share":
                        events.append(Progressed(pack, value))
                    case "done":
                        events.append(Done(pack, value, last=False))
                    case _:
                        worker.pack = None
                        events.append(_ENDS[kind](pack, value))
                        return events
        except (EOFError, OSError):
            pass
        if not worker.process.is_alive():
            reason = worker.past or _how_it_ended(worker.process.exitcode)
            self._replace(worker)
            events.append(Died(pack, reason))
        return events

    def _enforce_limits(self) -> None:
        """End workers whose pack uses more than it may."""
        for worker in self._workers:
            if worker.pack is None or worker.past:
                continue
            took = 0.0 if worker.began is None else time.monotonic() - worker.began
            if self._limits.seconds and took > self._limits.seconds:
                worker.past = f"it took longer than {self._limits.seconds:g} s"
            elif self._limits.gigabytes and _memory(worker.process.pid) > self._limits.gigabytes:
                worker.past = f"it used more than {self._limits.gigabytes:g} GB of memory"
            if worker.past:
                worker.process.kill()


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the file of the main module from a process that is started.

    Workers need nothing of it, and a script that calls us without asking for `__name__ == "__main__"` would begin anew
    in each of them.
    """
    main = sys.modules["__main__"]
    hidden = {name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


def _serve(pipe: Any, folder: Path, work: Work, parent: int) -> None:
    """Work on packs until the pipe closes."""
    # Ctrl-C and a closed terminal are for the coordinator, who asks its workers to end
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    listen((signal.SIGTERM,), once=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    _end_with(parent)
    # saved by now
    with suppress(Interrupted):
        _work_on(pipe, folder, work)


def _work_on(pipe: Any, folder: Path, work: Work) -> None:
    while True:
        try:
            pack: Pack = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(("began", None))
        try:
            for runs in work(pack, folder, lambda share: pipe.send(("share", share))):
                pipe.send(("done", runs))
            pipe.send(("end", []))
        except BLOCKED as error:
            pipe.send(("stuck", str(error)))
        except Exception as error:
            pipe.send(("died", f"{type(error).__name__}: {error}".splitlines()[0][:200]))


def _end_with(parent: int) -> None:
    """Let this process end when its parent does, however that ends: two must never work in one directory."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(1)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its worker was ended by signal {-code} ({signal.strsignal(-code) or 'unnamed'})"
    return f"its worker ended with exit code {code}"


def _memory(pid: int | None) -> float:
    """Return the memory of a process in gigabytes; 0 where the system does not show it."""
    try:
        pages: Sequence[str] = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return int(pages[1]) * _PAGE / 1e9
