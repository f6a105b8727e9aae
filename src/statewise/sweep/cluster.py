"""The engine of a cluster: each pack is one Ray task; results come back to the one writer.

Ray is an extra: `pip install statewise[ray]`. A worker keeps checkpoints in its own node's temporary folder.
"""

import logging
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from statewise.errors import GridError, shorten
from statewise.sweep.engine import Died, Done, Event, Limits, Stuck
from statewise.sweep.packs import Pack
from statewise.sweep.work import BLOCKED, FinishedRun, Work, work


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
        self._ray = _import_ray()
        self._most, self._name, self._limits, self._work = workers, name, limits, work
        # a cluster that somebody else started is left running
        begun = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
        try:
            self._ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **begun)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise GridError(
                f'no Ray cluster answers at "{shorten(address)}": {shorten(error)}; start one with "ray start --head", '
                "or give its token, with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
            ) from None
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
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        return [event for task in ready for event in self._receive(task)]

    def close(self) -> None:
        """Cancel what is under way, and leave the cluster."""
        for task in self._under_way:
            self._ray.cancel(task, force=True)
        self._ray.shutdown()

    def _receive(self, task: Any) -> list[Event]:
        pack, began = self._under_way.pop(task)
        try:
            runs: list[FinishedRun] = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, BLOCKED):
                return [Stuck(pack, str(cause))]
            lines = str(error).strip().splitlines() or [type(error).__name__]
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


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise GridError('engine "ray" needs the package ray, which is not installed; install statewise[ray]') from None
    return ray
