"""Models of token sequences: the levels of the hierarchy, the baselines, and a user's own."""

from typing import TYPE_CHECKING

from statewise.models.table import BASELINES, KINDS, LEVELS, TABLE, Kind, is_own, kind_of, label_of, spec_of
from statewise.rooms import lazy_names, make_callable

if TYPE_CHECKING:
    from statewise.models.catalogue import ModelLike, ModelOptions, build_model, load_pretrained
    from statewise.models.interface import AdaptedModel, RecurrentModel, SequenceModel, as_model
    from statewise.models.layer import BilinearRNN
    from statewise.models.levels import build_transition
    from statewise.models.own import LARGEST_SOURCE, OwnModel, OwnSource, has_source, own_class, own_source, source_hash
    from statewise.models.tracker import Readout, StateTracker

# what needs torch is imported when first used
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "catalogue": ("ModelLike", "ModelOptions", "build_model", "load_pretrained"),
        "interface": ("AdaptedModel", "RecurrentModel", "SequenceModel", "as_model"),
        "layer": ("BilinearRNN",),
        "levels": ("build_transition",),
        "own": ("LARGEST_SOURCE", "OwnModel", "OwnSource", "has_source", "own_class", "own_source", "source_hash"),
        "tracker": ("Readout", "StateTracker"),
    },
)

__all__ = [
    "BASELINES",
    "KINDS",
    "LARGEST_SOURCE",
    "LEVELS",
    "TABLE",
    "AdaptedModel",
    "BilinearRNN",
    "Kind",
    "ModelLike",
    "ModelOptions",
    "OwnModel",
    "OwnSource",
    "Readout",
    "RecurrentModel",
    "SequenceModel",
    "StateTracker",
    "as_model",
    "build_model",
    "build_transition",
    "has_source",
    "is_own",
    "kind_of",
    "label_of",
    "load_pretrained",
    "own_class",
    "own_source",
    "source_hash",
    "spec_of",
]

# `sw.models()` lists the names of models
make_callable(__name__)
