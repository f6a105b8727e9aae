"""DeltaProduct: several steps of the delta rule per token (Siems et al., 2025), in plain torch."""

from typing import final

from statewise.errors import TransitionError
from statewise.models.baselines.delta_rule import delta_mixers
from statewise.models.baselines.linear_attention import LinearAttentionTracker


@final
class DeltaProductTracker(LinearAttentionTracker):
    """DeltaProduct: S_t = A_t S_{t-1} + B_t, o_t = S_t^T q_t, with n steps of the delta rule per token.

    Step j has its own key, value and beta, so that A_t = (I - beta_n k_n k_n^T) ... (I - beta_1 k_1 k_1^T) is a
    product of n generalised Householder matrices. With beta in (0, 2) one head can permute n + 1 elements in any way,
    and two reflections are a rotation. With n = 1 it is DeltaNet; gated, it is Gated DeltaNet, whose decay is applied
    once per token.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        n: how many Householder matrices a token has, n_h in the paper.
        layers: how many blocks.
        negative: whether beta is in (0, 2), the model's own, and not in (0, 1).
        gated: whether the state decays and the output is gated, as in Gated DeltaNet.
        heads: how many heads.
    """

    def __init__(
        self,
        symbols: int,
        classes: int,
        hidden_size: int,
        n: int = 2,
        layers: int = 1,
        negative: bool = True,
        gated: bool = False,
        heads: int = 4,
    ) -> None:
        if n < 1:
            raise TransitionError(f"deltaproduct needs at least 1 Householder matrix per token, got {n}; use 2 or more")
        mixers = delta_mixers("deltaproduct", hidden_size, heads, layers, n, negative, gated)
        super().__init__(symbols, classes, hidden_size, mixers)
