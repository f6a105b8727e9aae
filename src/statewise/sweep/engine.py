"""What a sweep asks of an engine: take packs, and report what became of them."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from statewise.errors import GridError
from statewise.sweep.packs import Pack
from statewise.sweep.work import FinishedRun


@dataclass(frozen=True)
class Limits:
    """What a pack may use before its worker is ended.

    Args:
        seconds: of wall time; 0 for no bound.
        gigabytes: of memory; 0 for no bound.
    """

    seconds: float = 0.0
    gigabytes: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.seconds < math.inf and 0 <= self.gigabytes < math.inf):
            raise GridError(
                f"the limits are {self.seconds} s and {self.gigabytes} GB; expected 0 or more; correct them"
            )


@dataclass(frozen=True)
class Done:
    """Runs of a pack have ended; the pack itself has, if `last`."""

    pack: Pack
    runs: list[FinishedRun]
    last: bool


@dataclass(frozen=True)
class Progressed:
    """A share of a pack, from 0 to 1, is done."""

    pack: Pack
    share: float


@dataclass(frozen=True)
class Died:
    """A pack's worker ended before the pack did."""

    pack: Pack
    reason: str


@dataclass(frozen=True)
class Lost:
    """What a pack ran on is gone, which is no fault of its runs: another worker can do it."""

    pack: Pack
    reason: str


@dataclass(frozen=True)
class Stuck:
    """A worker cannot go on, and no other could: its disk takes no more, or there is no cluster any more."""

    pack: Pack
    reason: str


Event = Done | Progressed | Died | Lost | Stuck


@runtime_checkable
class Engine(Protocol):
    """Where packs are worked on."""

    @property
    def free(self) -> int:
        """How many more packs can be started now."""
        ...

    @property
    def busy(self) -> int:
        """How many packs are under way."""
        ...

    def start(self, pack: Pack) -> None:
        """Hand a pack to a free worker."""
        ...

    def wait(self, seconds: float) -> list[Event]:
        """Wait until something happened, at most so long, and return what."""
        ...

    def close(self) -> None:
        """End all workers; what they were doing is resumed by a later sweep."""
        ...
