"""Run directories: what a run leaves behind, how it is opened again, and how runs are done."""

from typing import TYPE_CHECKING

from statewise.rooms import lazy_names, make_callable
from statewise.runs.directory import NetworkManifest, check_free, held_directory, open_directory, write_network
from statewise.runs.record import FORMAT, STATUSES, Record, RecordedMetrics, RecordedScore, parse_record, provenance
from statewise.runs.run import Run, RunLike, load

if TYPE_CHECKING:
    from statewise.runs.execution import PlannedRun, execute, execute_one
    from statewise.runs.weights import build_untrained, load_model, rebuild

# what needs torch is imported when first used
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "execution": ("PlannedRun", "execute", "execute_one"),
        "weights": ("build_untrained", "load_model", "rebuild"),
    },
)

__all__ = [
    "FORMAT",
    "STATUSES",
    "NetworkManifest",
    "PlannedRun",
    "Record",
    "RecordedMetrics",
    "RecordedScore",
    "Run",
    "RunLike",
    "build_untrained",
    "check_free",
    "execute",
    "execute_one",
    "held_directory",
    "load",
    "load_model",
    "open_directory",
    "parse_record",
    "provenance",
    "rebuild",
    "write_network",
]

# `sw.runs(...)` lists the runs of a store
make_callable(__name__)
