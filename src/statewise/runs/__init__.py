"""Run directories: what a run leaves behind, how it is opened again, and how runs are done."""

from typing import TYPE_CHECKING, Any

from statewise.rooms import make_callable
from statewise.runs.directory import NetworkManifest, check_free, open_directory, write_network
from statewise.runs.record import FORMAT, STATUSES, Record, RecordedMetrics, RecordedScore, parse_record, provenance
from statewise.runs.run import Run, RunLike, load

if TYPE_CHECKING:
    from statewise.runs.execution import PlannedRun, execute, execute_one
    from statewise.runs.weights import build_untrained, load_model, rebuild

# what needs torch is imported when first used
_LAZY = {
    **dict.fromkeys(("PlannedRun", "execute", "execute_one"), "execution"),
    **dict.fromkeys(("build_untrained", "load_model", "rebuild"), "weights"),
}

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
    "load",
    "load_model",
    "open_directory",
    "parse_record",
    "provenance",
    "rebuild",
    "write_network",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"statewise.runs.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'statewise.runs' has no attribute {name!r}")


# `sw.runs(...)` lists the runs of a store
make_callable(__name__)
