"""DeltaNet: linear attention with the delta rule (Schlag et al., 2021; Yang et al., 2024), in plain torch."""

from typing import final

from statewise.models.baselines.delta_rule import DeltaMixer, NoDecay
from statewise.models.baselines.linear_attention import LinearAttentionTracker, OutputNorm
from statewise.models.baselines.stack import check_heads


@final
class DeltaNetTracker(LinearAttentionTracker):
    """DeltaNet: S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T,  o_t = S_t^T q_t.

    Each head has an S of its own. q, k and v come from a short convolution; q and k have length 1, so that the
    eigenvalues of a transition are 1 and 1 - beta. With beta in (0, 1) all are positive, and parity cannot be tracked;
    with beta in (0, 2) one can be near -1, a reflection: parity can, and the swap of two elements (Grazzi et al.,
    2024).

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        negative: whether beta is in (0, 2) and not in (0, 1), DeltaNet's own.
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
        check_heads("deltanet", hidden_size, heads)
        mixers = [
            DeltaMixer(hidden_size, heads, 1, negative, NoDecay(), OutputNorm(hidden_size, heads))
            for _ in range(layers)
        ]
        super().__init__(symbols, classes, hidden_size, mixers)
