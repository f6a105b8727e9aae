"""A coordinator in a process of its own, which tests kill: the library with fake work among real runs.

python -m tests.sweep.coordinator STORE GATE [RAY_ADDRESS]
"""

import sys
from pathlib import Path

from statewise.errors import StatewiseError
from statewise.store import Store
from statewise.sweep import Limits
from statewise.sweep.cluster import RayEngine
from statewise.sweep.local import LocalEngine
from statewise.sweep.runner import run_jobs
from statewise.sweep.schedule import work_folder

from .fakes import fake_work
from .jobs import killed_jobs


def main(directory: Path, gate: Path, address: str | None) -> None:
    """Do the 200 runs of the tests of kills that the store does not have."""

    def start(store, workers):
        if address is not None:
            return RayEngine(workers, address, store.name, Limits(), fake_work)
        return LocalEngine(workers, work_folder(store.directory), Limits(), fake_work)

    try:
        with Store.open(directory, write=True) as store:
            run_jobs(store, killed_jobs(gate), 2, start)
    except StatewiseError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
