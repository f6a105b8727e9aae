"""The usual architectures and published rivals, behind the same verbs as StateTracker."""

from statewise.models.baselines.deltanet import DeltaNetTracker
from statewise.models.baselines.deltaproduct import DeltaProductTracker
from statewise.models.baselines.gated_deltanet import GatedDeltaNetTracker
from statewise.models.baselines.gla import GLATracker
from statewise.models.baselines.mamba import MambaTracker
from statewise.models.baselines.recurrent import RecurrentTracker
from statewise.models.baselines.transformer import TransformerTracker

__all__ = [
    "DeltaNetTracker",
    "DeltaProductTracker",
    "GLATracker",
    "GatedDeltaNetTracker",
    "MambaTracker",
    "RecurrentTracker",
    "TransformerTracker",
]
