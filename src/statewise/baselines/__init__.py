"""The usual architectures, behind the same verbs as StateTracker."""

from statewise.baselines.mamba import MambaTracker
from statewise.baselines.recurrent import RecurrentTracker
from statewise.baselines.transformer import TransformerTracker

__all__ = ["MambaTracker", "RecurrentTracker", "TransformerTracker"]
