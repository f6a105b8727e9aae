"""A node, a cluster or a token that is lost is no run that failed; the same command goes on."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from statewise.errors import GridError, StoreWriteError
from statewise.store import Store
from statewise.sweep import Costs, Limits, make_packs, run_packs
from statewise.sweep.cluster import RayEngine
from statewise.sweep.cluster_health import Watch, check_address, place_of
from statewise.sweep.engine import Died, Done, Lost, Stuck
from statewise.sweep.work import FinishedRun
from tests.command import ROOT, STATEWISE, started
from tests.command import until as wait_for

from .fakes import _record
from .jobs import SMALL, fake_jobs, killed_jobs
from .processes import COORDINATOR, finished, recorded

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
RAY = Path(sys.executable).with_name("ray")


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class _LosingEngine:
    """An engine whose nodes are lost so many times before a pack is done."""

    free = 1

    def __init__(self, losses):
        self.losses, self.pack, self.attempts = losses, None, []

    @property
    def busy(self):
        return int(self.pack is not None)

    def start(self, pack):
        self.pack, self.free = pack, 0

    def wait(self, seconds):
        pack, self.pack, self.free = self.pack, None, 1
        self.attempts.append(pack.attempt)
        if self.losses > 0:
            self.losses -= 1
            return [Lost(pack, "NodeDiedError: the node is gone")]
        return [Done(pack, [FinishedRun(_record(job)) for job in pack.jobs], last=True)]

    def close(self):
        """Nothing is under way."""


def _run(directory, engine):
    with Store.open(directory, write=True) as store:
        try:
            run_packs(store, make_packs(fake_jobs(3), Costs(), 1), engine, lambda progress: None)
        finally:
            counts = store.counts()
    return counts


def test_a_lost_node_costs_no_attempt_and_no_run(tmp_path):
    engine = _LosingEngine(6)
    assert _run(tmp_path, engine) == {"done": 3}
    assert set(engine.attempts) == {0}


def test_nodes_that_are_lost_again_and_again_end_the_sweep_and_blame_no_run(tmp_path):
    with pytest.raises(StoreWriteError, match=r"was lost 8 times \(NodeDiedError: the node is gone\); the runs"):
        _run(tmp_path, _LosingEngine(100))
    with Store.open(tmp_path) as store:
        assert store.counts() == {}


def test_an_address_where_nothing_listens_is_one_sentence_at_once(tmp_path):
    (tmp_path / "grid.toml").write_text('[[grid]]\ntask = "parity"\nmodel = "full"\n')
    address = f"127.0.0.1:{_free_port()}"
    command = [*STATEWISE, "sweep", tmp_path / "grid.toml", "--store", tmp_path / "store"]
    done = finished([*command, "--engine", "ray", "--ray-address", address])
    assert done.returncode == 2
    assert done.stderr.startswith(f'statewise: no Ray cluster answers at "{address}": nothing listens there; start one')
    assert len(done.stderr.splitlines()) == 1


def test_what_listens_but_is_no_cluster_is_told_within_a_bound(monkeypatch):
    monkeypatch.setattr("statewise.sweep.cluster_health._ANSWER", 0.5)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(GridError, match="what listens there is no Ray"):
            check_address(f"127.0.0.1:{other.getsockname()[1]}")


@pytest.mark.parametrize(
    ("address", "place"),
    [("a.b:6379", ("a.b", 6379)), ("ray://h:1", ("h", 1)), ("[::1]:7", ("::1", 7)), ("auto", None), ("h:x", None)],
)
def test_addresses_are_read(address, place):
    assert place_of(address) == place


def test_a_watch_gives_a_cluster_time_and_then_it_is_gone():
    now = [0.0]
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        watch = Watch(f"127.0.0.1:{head.getsockname()[1]}", lambda: now[0], every=1.0, silent=5.0)
        for now[0] in (2.0, 4.0):
            assert watch.look()
    for now[0] in (6.0, 9.0):
        assert watch.look()
        assert not watch.answers
    now[0] = 9.5
    assert watch.look()
    now[0] = 10.6
    assert not watch.look()
    assert watch.gone


@contextmanager
def _node(folder, name, *arguments):
    """Start a node of a cluster in a session of its own; it is gone at the end, with all of its processes."""
    log = Path(folder) / f"{name}.log"
    command = [RAY, "start", *arguments, "--num-cpus=1", "--disable-usage-stats", "--block"]
    command += ["--node-ip-address=127.0.0.1", "--object-store-memory=80000000"]
    given = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "RAY_worker_niceness": "0"}
    with log.open("w") as stream, subprocess.Popen(command, stdout=stream, stderr=stream, env=given) as process:
        try:
            wait_for(lambda: "Ray runtime started" in log.read_text() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            _kill(process)


def _kill(process):
    """Kill a node at once, as a power cut does."""
    import psutil

    if process.poll() is None:
        one = psutil.Process(process.pid)
        for each in [*one.children(recursive=True), one]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (ray.exceptions.NodeDiedError("the node is gone"), Lost),
        (ray.exceptions.ObjectLostError("00" * 28, None, ""), Lost),
        (ray.exceptions.RaySystemError("no token"), Lost),
        (ray.exceptions.WorkerCrashedError(), Died),
        (ray.exceptions.OutOfMemoryError("too much"), Died),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("answers", [True, False])
def test_what_a_cluster_loses_is_told_from_what_a_run_does(error, event, answers, monkeypatch):
    monkeypatch.setattr("statewise.sweep.cluster._NOTICING", 0.0)

    def get(task):
        raise error

    engine, (pack,) = object.__new__(RayEngine), make_packs(fake_jobs(1), Costs(), 1)
    engine._ray, engine._limits, engine._address = SimpleNamespace(get=get, exceptions=ray.exceptions), Limits(), "h:1"
    engine._watch, engine._under_way = SimpleNamespace(answers=answers, gone=False), {"task": (pack, 0.0)}
    (found,) = engine._receive("task")
    # without its cluster every loss is the end, and what a run does is its own still
    assert type(found) is (Stuck if event is Lost and not answers else event)
    assert engine._watch.gone == (type(found) is Stuck)


@pytest.mark.slow
def test_a_lost_node_and_then_the_whole_cluster_cost_no_run(tmp_path):
    directory, gate, port = tmp_path / "store", tmp_path / "gate", _free_port()
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    address = f"127.0.0.1:{port}"
    head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
    with _node(folder, "head", *head) as first, _node(folder, "other", f"--address={address}") as second:
        with started([*COORDINATOR, directory, gate, address]) as process:
            wait_for(lambda: recorded(directory) > 5, process)
            _kill(second)
            before = recorded(directory)
            # the node that is left goes on with what the other had
            wait_for(lambda: recorded(directory) > min(before + 10, 198), process)
            _kill(first)
            _, said = process.communicate()
        assert process.returncode == 1, said
        assert f'the Ray cluster at "{address}" does not answer any more; the runs recorded so far stay' in said
        assert "Traceback" not in said
    shutil.rmtree(folder, ignore_errors=True)
    with Store.open(directory) as store:
        assert store.counts().keys() == {"done"}
    gate.touch()
    done = finished([*COORDINATOR, directory, gate])
    assert done.returncode == 0, done.stderr
    with Store.open(directory) as store:
        assert store.counts() == {"done": 200}
        assert store.keys() == {job.key for job in killed_jobs(gate)}


_LISTENING = """
import os, sys
from pathlib import Path
from statewise.sweep.cluster import RayEngine
from statewise.sweep.engine import Limits
engine = RayEngine(1, None, "alone", Limits())
import psutil
own = psutil.Process()
ports = {c.laddr.ip for p in (own, *own.children(recursive=True)) for c in p.net_connections() if c.status == "LISTEN"}
print(sorted(ports), os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]))
engine.close()
"""


def test_a_cluster_that_is_started_listens_on_loopback_with_a_token():
    done = finished([sys.executable, "-c", _LISTENING])
    assert done.returncode == 0, done.stderr
    ports, mode, length = done.stdout.rsplit(" ", 2)
    assert all("127.0.0.1" in port for port in ports.strip("[]").split(", "))
    assert (mode, int(length)) == ("token", 64)


_SRUN = """#!/bin/bash
# a stand-in: what is asked for runs here, as often as there are tasks
tasks=1
while [[ $1 != ray ]]; do
    [[ $1 == --ntasks=* ]] && tasks=${1#*=}
    [[ $1 == -w ]] && shift
    shift
done
for ((i = 1; i < tasks; i++)); do "$@" --disable-usage-stats --object-store-memory=80000000 & done
exec "$@" --disable-usage-stats --object-store-memory=80000000
"""


def test_the_script_for_slurm_runs_a_sweep(tmp_path):
    """Two nodes on one machine, with srun and scontrol that do what theirs would."""
    options = "".join(f"{key} = {list(value) if isinstance(value, tuple) else value}\n" for key, value in SMALL.items())
    (tmp_path / "grid.toml").write_text(f'[[grid]]\ntask = "parity"\nmodel = ["diagonal", "full"]\n{options}')
    programs = {
        "srun": _SRUN,
        "scontrol": "#!/bin/bash\nprintf '127.0.0.1\\nother\\n'\n",
        "statewise": f'#!/bin/bash\nexec {sys.executable} -m statewise "$@"\n',
        "ray": f'#!/bin/bash\nexec {RAY} "$@"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_CPUS_PER_TASK": "1"}
    given |= {"RAY_PORT": str(_free_port()), "RAY_TMPDIR": tempfile.mkdtemp(prefix="ray", dir="/tmp")}
    given |= {"PYTHONPATH": f"{ROOT / 'src'}", "RAY_worker_niceness": "0"}
    sweep = ["statewise", "sweep", tmp_path / "grid.toml", "--store", tmp_path / "store", "--json"]
    began = time.time()
    with started(["bash", ROOT / "examples" / "sweep.slurm", *sweep], env=os.environ | given) as process:
        out, said = process.communicate()
    assert process.returncode == 0, said
    assert '"total": 2, "done": 2, "failed": 0' in out
    with Store.open(tmp_path / "store") as store:
        assert store.counts() == {"done": 2}
        assert all(record.finished > began - 1 for record in store.records())
    shutil.rmtree(given["RAY_TMPDIR"], ignore_errors=True)
