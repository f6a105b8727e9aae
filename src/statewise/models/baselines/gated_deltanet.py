"""Gated DeltaNet: the delta rule with a decay (Yang, Kautz & Hatamizadeh, 2024), in plain torch."""

from typing import final

from statewise.models.baselines.delta_rule import DeltaMixer, ScalarDecay
from statewise.models.baselines.linear_attention import GatedOutputNorm, LinearAttentionTracker
from statewise.models.baselines.stack import check_heads


@final
class GatedDeltaNetTracker(LinearAttentionTracker):
    """Gated DeltaNet: S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T,  o_t = S_t^T q_t.

    As DeltaNet, with a decay alpha in (0, 1) for each head that depends on the input, and an output that is gated.
    Keys and values have the same size here.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        negative: whether beta is in (0, 2), for negative eigenvalues, and not in (0, 1), the model's own.
        heads: how many heads.
    """

    def __init__(
        self,
        symbols: int,
        classes: int,
        hidden_size: int,
        layers: int = 1,
        negative: bool = False,
        heads: int = 4,
    ) -> None:
        check_heads("gated_deltanet", hidden_size, heads)
        mixers = [
            DeltaMixer(
                hidden_size, heads, 1, negative, ScalarDecay(hidden_size, heads), GatedOutputNorm(hidden_size, heads)
            )
            for _ in range(layers)
        ]
        super().__init__(symbols, classes, hidden_size, mixers)
