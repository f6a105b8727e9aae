"""The usual architectures and published rivals, behind the same verbs as StateTracker."""

from statewise.models.baselines.deltanet import DeltaNetTracker
from statewise.models.baselines.deltaproduct import DeltaProductTracker
from statewise.models.baselines.gated_deltanet import GatedDeltaNetTracker
from statewise.models.baselines.gla import GLATracker
from statewise.models.baselines.mamba import MambaTracker
from statewise.models.baselines.mamba3 import Mamba3Tracker
from statewise.models.baselines.mlstm import MLSTMTracker
from statewise.models.baselines.pd_ssm import PDTracker
from statewise.models.baselines.recurrent import RecurrentTracker
from statewise.models.baselines.rwkv7 import RWKV7Tracker
from statewise.models.baselines.slice import SliceTracker
from statewise.models.baselines.slstm import SLSTMTracker
from statewise.models.baselines.transformer import TransformerTracker

__all__ = [
    "DeltaNetTracker",
    "DeltaProductTracker",
    "GLATracker",
    "GatedDeltaNetTracker",
    "MLSTMTracker",
    "Mamba3Tracker",
    "MambaTracker",
    "PDTracker",
    "RWKV7Tracker",
    "RecurrentTracker",
    "SLSTMTracker",
    "SliceTracker",
    "TransformerTracker",
]
