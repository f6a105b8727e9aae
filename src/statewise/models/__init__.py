"""Models of token sequences: the levels of the hierarchy, the baselines, and a user's own."""

from typing import TYPE_CHECKING, Any

from statewise.models.table import BASELINES, KINDS, LEVELS, TABLE, Kind, kind_of, label_of

if TYPE_CHECKING:
    from statewise.models.catalogue import ModelLike, ModelOptions, build_model
    from statewise.models.interface import AdaptedModel, RecurrentModel, SequenceModel, as_model
    from statewise.models.layer import BilinearRNN
    from statewise.models.levels import build_transition
    from statewise.models.own import OwnModel, is_own, own_class, source_hash, spec_of
    from statewise.models.tracker import Readout, StateTracker

# what needs torch is imported when first used
_LAZY = {
    **dict.fromkeys(("ModelLike", "ModelOptions", "build_model"), "catalogue"),
    **dict.fromkeys(("AdaptedModel", "RecurrentModel", "SequenceModel", "as_model"), "interface"),
    **dict.fromkeys(("OwnModel", "is_own", "own_class", "source_hash", "spec_of"), "own"),
    **dict.fromkeys(("Readout", "StateTracker"), "tracker"),
    "BilinearRNN": "layer",
    "build_transition": "levels",
}

__all__ = [
    "BASELINES",
    "KINDS",
    "LEVELS",
    "TABLE",
    "AdaptedModel",
    "BilinearRNN",
    "Kind",
    "ModelLike",
    "ModelOptions",
    "OwnModel",
    "Readout",
    "RecurrentModel",
    "SequenceModel",
    "StateTracker",
    "as_model",
    "build_model",
    "build_transition",
    "is_own",
    "kind_of",
    "label_of",
    "own_class",
    "source_hash",
    "spec_of",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"statewise.models.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'statewise.models' has no attribute {name!r}")
