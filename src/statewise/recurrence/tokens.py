"""Recurrences over discrete tokens: the coefficients of each token are computed once and looked up."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.recurrence.grouped import grouped_products
from statewise.recurrence.reference import rescale
from statewise.transitions import Full, Transition


def unroll_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"],
    tokens: Int[Tensor, "batch time"],
    h0: Float[Tensor, "batch hidden"],
) -> Float[Tensor, "batch time hidden"]:
    """Computes h_t = A(embedding of token t) h_{t-1} for every t.

    Args:
        transition: A, and an additive term if there is one.
        embeddings: the input that stands for each token.
        tokens: which token comes when.
        h0: the state before the first token.
    """
    table = transition.coefficients(embeddings)
    if isinstance(transition, Full):
        return grouped_products(table, h0, tokens)
    h = h0
    outputs = []
    for t in range(tokens.shape[1]):
        h = transition.act(_look_up(table, tokens[:, t]), h)
        outputs.append(h)
    return torch.stack(outputs, dim=1) if outputs else h0.unsqueeze(1)[:, :0]


def last_of_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"],
    tokens: Int[Tensor, "batch time"],
    h: Float[Tensor, "batch hidden"],
    log_norm: Float[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]]:
    """Runs over words of any length without gradient, with states of norm 1, and gives the last one only."""
    with torch.no_grad():
        table = transition.coefficients(embeddings)
        h, log_norm = rescale(h, log_norm)
        for t in range(tokens.shape[1]):
            h, log_norm = rescale(*transition.act_scaled(_look_up(table, tokens[:, t]), h, log_norm))
    return h, log_norm


def _look_up(table: Tensor | tuple[Tensor, ...], token: Int[Tensor, " batch"]) -> Tensor | tuple[Tensor, ...]:
    return pytree.tree_map(lambda part: part[token], table)
