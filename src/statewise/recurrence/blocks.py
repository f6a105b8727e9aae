"""Products of small blocks over time, pairwise: a word of T tokens takes log2(T) rounds and T products."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def product_of_blocks(
    table: Float[Tensor, "token blocks out in"],
    tokens: Int[Tensor, "batch time"],
    inside: Bool[Tensor, "batch time"],
) -> Float[Tensor, "batch blocks out in"]:
    """Multiplies the blocks of each word's tokens, the last from the left, up to a positive factor per word.

    Args:
        table: the blocks of each token.
        tokens: which token comes when.
        inside: which tokens count.
    """
    one = torch.eye(table.shape[-1], dtype=table.dtype, device=table.device).expand(1, *table.shape[1:])
    # blocks last: a product of many small matrices is then a few long sums
    extended = torch.cat([table, one]).permute(0, 2, 3, 1).contiguous()
    product = extended[torch.where(inside, tokens, len(table))]
    while product.shape[1] > 1:
        if product.shape[1] % 2:
            last = extended[-1].expand(product.shape[0], 1, -1, -1, -1)
            product = torch.cat([product, last], dim=1)
        product = _multiply(product[:, 1::2], product[:, 0::2])
        # one factor for all blocks of a word, so that directions stay
        largest = product.detach().abs().amax(dim=(2, 3, 4), keepdim=True)
        product = product / torch.where(largest > 0, largest, 1.0)
    return product[:, 0].permute(0, 3, 1, 2)


def _multiply(later: Float[Tensor, "*batch out mid n"], earlier: Float[Tensor, "*batch mid in n"]) -> Tensor:
    return sum(
        (later[..., :, k, None, :] * earlier[..., None, k, :, :] for k in range(1, later.shape[-2])),
        start=later[..., :, 0, None, :] * earlier[..., None, 0, :, :],
    )
