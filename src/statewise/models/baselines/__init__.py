"""The usual architectures, behind the same verbs as StateTracker."""

from statewise.models.baselines.mamba import MambaTracker
from statewise.models.baselines.recurrent import RecurrentTracker
from statewise.models.baselines.slice import SliceTracker
from statewise.models.baselines.transformer import TransformerTracker

__all__ = ["MambaTracker", "RecurrentTracker", "SliceTracker", "TransformerTracker"]
