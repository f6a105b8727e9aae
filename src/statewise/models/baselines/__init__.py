"""The usual architectures, behind the same verbs as StateTracker."""

from statewise.models.baselines.mamba import MambaTracker
from statewise.models.baselines.mlstm import MLSTMTracker
from statewise.models.baselines.pd_ssm import PDTracker
from statewise.models.baselines.recurrent import RecurrentTracker
from statewise.models.baselines.rwkv7 import RWKV7Tracker
from statewise.models.baselines.slice import SliceTracker
from statewise.models.baselines.slstm import SLSTMTracker
from statewise.models.baselines.transformer import TransformerTracker

__all__ = [
    "MLSTMTracker",
    "MambaTracker",
    "PDTracker",
    "RWKV7Tracker",
    "RecurrentTracker",
    "SLSTMTracker",
    "SliceTracker",
    "TransformerTracker",
]
