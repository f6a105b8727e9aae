"""`statewise store check`: whether a store holds what was written to it."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from statewise.commands.inputs import PathLike
from statewise.errors import DamagedStoreError
from statewise.store import Store
from statewise.store.integrity import faults_of
from statewise.wording import Lines, Result, counted

_SHOWN = 100


@dataclass(frozen=True)
class StoreCheck(Result):
    """What is wrong with a store.

    Args:
        store: its directory.
        runs: how many it holds; None if that cannot be read.
        faults: one sentence each, the first hundred.
        more: whether there are others.
    """

    store: Path
    runs: int | None
    faults: tuple[str, ...]
    more: bool = False

    @property
    def failed(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.faults)

    def to_dict(self) -> dict[str, Any]:
        """Return what was found as plain values."""
        sound = not self.faults
        return {"store": str(self.store), "runs": self.runs, "sound": sound, "faults": list(self.faults)}

    def lines(self) -> Lines:
        """Return what was found for a reader."""
        held = "unknown runs" if self.runs is None else counted(self.runs, "run")
        if not self.faults:
            return [("sound", f"{self.store}: {held}, each as it was written")]
        lines = [("damaged", f"{self.store}: {held}"), *(("fault", fault) for fault in self.faults)]
        return [*lines, ("", "and others")] if self.more else lines


def check_store(store: PathLike) -> StoreCheck:
    """Check a whole store: its database, the checksum of each record and of all weights, and its write-ahead log.

    Args:
        store: the store's directory
    """
    directory = Path(store)
    try:
        with Store.open(directory) as opened:
            found = list(islice(faults_of(opened), _SHOWN + 1))
            runs = sum(opened.counts().values())
    except DamagedStoreError as error:
        found, runs = [str(error)], None
    return StoreCheck(directory, runs, tuple(found[:_SHOWN]), len(found) > _SHOWN)
