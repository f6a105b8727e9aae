"""DeltaNet: linear attention with the delta rule (Schlag et al., 2021; Yang et al., 2024), in plain torch."""

from typing import final

from statewise.models.baselines.delta_rule import DeltaTracker


@final
class DeltaNetTracker(DeltaTracker):
    """DeltaNet: S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T,  o_t = S_t^T q_t.

    Each head has an S of its own. q, k and v come from a short convolution; q and k have length 1, so that the
    eigenvalues of a transition are 1 and 1 - beta. With beta in (0, 1) all are positive, and parity cannot be tracked;
    with beta in (0, 2) one can be near -1, a reflection: parity can, and the swap of two elements (Grazzi et al.,
    2024).
    """

    name = "deltanet"
    gated = False
