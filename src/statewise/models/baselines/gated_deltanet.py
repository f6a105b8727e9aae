"""Gated DeltaNet: the delta rule with a decay (Yang, Kautz & Hatamizadeh, 2024), in plain torch."""

from typing import final

from statewise.models.baselines.delta_rule import DeltaTracker


@final
class GatedDeltaNetTracker(DeltaTracker):
    """Gated DeltaNet: S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T,  o_t = S_t^T q_t.

    As DeltaNet, with a decay alpha in (0, 1) for each head that depends on the input, and an output that is gated.
    Keys and values have the same size here.
    """

    name = "gated_deltanet"
    gated = True
