"""The engine of a cluster: each pack is one Ray task; results come back to the one writer.

Ray is an extra: `pip install statewise[ray]`. A worker keeps checkpoints in its own node's temporary folder.
"""

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from statewise.errors import shorten
from statewise.interruption import SIGNALS
from statewise.sweep.cluster_health import Watch, check_address, need_ray, no_cluster, place_of, private_cluster
from statewise.sweep.engine import Died, Done, Event, Limits, Lost, Stuck
from statewise.sweep.packs import Pack
from statewise.sweep.work import BLOCKED, FinishedRun, Work, work

# how long tasks have to save what they are training, how long Ray has to leave, and how long a cluster may be without
# a node that works, in seconds
_SAVING, _LEAVING, _NO_NODE = 10.0, 15.0, 60.0
# how soon a cluster knows that a node is gone, about, in seconds
_NOTICING = 2.0


class RayEngine:
    """Ray tasks on a cluster, or on one that is started on the spot.

    Args:
        workers: how many packs are under way at once.
        address: of a running cluster; None starts one on this machine.
        name: of the store, so that no other sweep resumes what this one leaves on a node.
        limits: of a pack.
        work: what workers do with a pack; a function that can be imported by its name.
    """

    def __init__(self, workers: int, address: str | None, name: str, limits: Limits, work: Work = work) -> None:
        self._most, self._name, self._limits, self._work = workers, name, limits, work
        if address is not None:
            need_ray()
            check_address(address)
        # a cluster that somebody else started is left running
        begun: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        begun |= {"num_cpus": workers, "include_dashboard": False} if address is None else {}
        with private_cluster() if address is None else nullcontext():
            self._ray = need_ray()
            try:
                with _signals_kept():
                    self._ray.init(address=address or "local", **begun)
            except (ConnectionError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
                raise no_cluster(address, shorten(error)) from None
        self._address = address or "local"
        if place_of(self._address) is None:
            self._address = str(self._ray.get_runtime_context().gcs_address)
        self._watch = Watch(self._address)
        # since when no node can do anything, on the monotonic clock
        self._idle: float | None = None
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_work_whole)
        self._under_way: dict[Any, tuple[Pack, float]] = {}

    @property
    def free(self) -> int:
        """How many more packs can be handed over."""
        return self._most - len(self._under_way)

    @property
    def busy(self) -> int:
        """How many packs are under way."""
        return len(self._under_way)

    def start(self, pack: Pack) -> None:
        """Hand a pack to the cluster."""
        task = self._task.remote(pack, self._name, self._limits, self._work)
        self._under_way[task] = pack, time.monotonic()

    def wait(self, seconds: float) -> list[Event]:
        """Return packs that have ended."""
        if not self._watch.look():
            return [self._gone(next(iter(self._under_way.values()))[0])]
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        if ready:
            self._idle = None
            return [event for task in ready for event in self._receive(task)]
        return self._find_idle()

    def close(self) -> None:
        """Cancel what is under way, which is saved if it ends soon, and leave the cluster."""
        if not self._watch.gone:
            for force in (False, True):
                for task in self._under_way:
                    self._ray.cancel(task, force=force)
                if self._under_way and not force:
                    left = list(self._under_way)
                    self._ray.wait(left, num_returns=len(left), timeout=_SAVING)
        # without its cluster Ray waits for it
        leaving = threading.Thread(target=self._ray.shutdown, daemon=True)
        leaving.start()
        leaving.join(_LEAVING)

    def _gone(self, pack: Pack) -> Stuck:
        self._watch.gone = True
        return Stuck(pack, f'the Ray cluster at "{shorten(self._address)}" does not answer any more')

    def _find_idle(self) -> list[Event]:
        """Notice that the last node which could work is gone."""
        if not self._watch.answers:
            return []
        cores = sum(node["Resources"].get("CPU", 0.0) for node in self._ray.nodes() if node["Alive"])
        now = time.monotonic()
        self._idle = None if cores >= 1 else self._idle or now
        if self._idle is None or now - self._idle < _NO_NODE:
            return []
        pack, _ = next(iter(self._under_way.values()))
        return [Stuck(pack, f'no node of the Ray cluster at "{shorten(self._address)}" has a core')]

    @property
    def _own_ends(self) -> tuple[type[BaseException], ...]:
        """The errors that a run may cause by itself; all others are the cluster's."""
        known = self._ray.exceptions
        return known.RayTaskError, known.WorkerCrashedError, known.OutOfMemoryError

    def _receive(self, task: Any) -> list[Event]:
        pack, began = self._under_way.pop(task)
        try:
            runs: list[FinishedRun] = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, BLOCKED):
                return [Stuck(pack, str(cause))]
            lines = str(error).strip().splitlines() or [type(error).__name__]
            if not isinstance(error, self._own_ends):
                # until the cluster knows of it, it would send the pack there again
                time.sleep(_NOTICING)
                if not self._watch.answers:
                    return [self._gone(pack)]
                return [Lost(pack, f"{type(error).__name__}: {shorten(lines[0], 160)}")]
            reason = f"its worker died ({type(error).__name__}: {shorten(lines[-1], 160)})"
            if self._limits.seconds and time.monotonic() - began > self._limits.seconds:
                reason = f"it took longer than {self._limits.seconds:g} s, or {reason}"
            return [Died(pack, reason)]
        return [Done(pack, runs, last=True)]


def _work_whole(pack: Pack, name: str, limits: Limits, work: Work) -> list[FinishedRun]:
    """Do a whole pack on a node of the cluster, which keeps to its limits by itself and leaves nothing behind."""
    if limits.gigabytes:
        _bound_memory(limits.gigabytes)
    clock = threading.Timer(limits.seconds, os._exit, [1])
    if limits.seconds:
        clock.start()
    try:
        folder = Path(tempfile.gettempdir()) / f"statewise-work-{os.getuid()}" / name
        runs = [run for some in work(pack, folder, lambda share: None) for run in some]
        for job in pack.jobs:
            shutil.rmtree(folder / job.key, ignore_errors=True)
    finally:
        clock.cancel()
    return runs


def _bound_memory(gigabytes: float) -> None:
    """Let an allocation that goes further than the bound beyond what is held now fail, in this worker."""
    import resource

    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + int(gigabytes * 1e9), hard))


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put back what Ray does with SIGTERM: it would end the process with nothing saved."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
