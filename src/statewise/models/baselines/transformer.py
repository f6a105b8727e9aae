"""A decoder-only Transformer in GPT-2's form (Radford et al., 2019), in plain torch."""

from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.errors import RunError, TransitionError
from statewise.models.interface import RecurrentModel

Positions = Literal["learned", "none"]
MAX_POSITIONS = 1024
# floats that cached keys and values may take
_CACHE_FLOATS = 100_000_000


class TransformerBlock(nn.Module):
    """Causal attention, then an MLP four times as wide; each with a norm before it and a residual around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(
        self, x: Float[Tensor, "batch time width"], cache: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "batch time width"], tuple[Tensor, Tensor]]:
        """Attend to what was cached and to itself, never ahead."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.attention(self.ln_1(x)).chunk(3, dim=-1)
        )
        key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        earlier = key.shape[2] - query.shape[2]
        if earlier:
            seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=x.device).tril(earlier)
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        else:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.widen(self.ln_2(x)), approximate="tanh")), (key, value)


@final
class TransformerTracker(RecurrentModel):
    """An embedding, learned positions or none, blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width.
        layers: how many blocks.
        positions: "learned", as in GPT-2, for sequences of at most 1,024 tokens; "none" for any length.
        heads: how many attention heads.
    """

    def __init__(
        self,
        symbols: int,
        classes: int,
        hidden_size: int,
        layers: int = 1,
        positions: Positions = "learned",
        heads: int = 4,
    ) -> None:
        super().__init__()
        if heads < 1 or hidden_size % heads:
            raise TransitionError(f"transformer needs a hidden size that its {heads} heads divide, got {hidden_size}")
        self.heads = heads
        self.embedding = nn.Embedding(symbols, hidden_size)
        self.positions = nn.Embedding(MAX_POSITIONS, hidden_size) if positions == "learned" else None
        self.longest = MAX_POSITIONS if positions == "learned" else None
        self.blocks = nn.ModuleList(TransformerBlock(hidden_size, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden_size)
        self.readout = nn.Linear(hidden_size, classes, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                # projections into the residual are smaller, the deeper the network
                deep = name.endswith(("projection.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 * ((2 * layers) ** -0.5 if deep else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def init_state(self, batch: int) -> list[tuple[Tensor, Tensor]]:
        """Return empty caches."""
        weight = self.readout.weight
        empty = weight.new_zeros(batch, self.heads, 0, weight.shape[1] // self.heads)
        return [(empty, empty) for _ in self.blocks]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[tuple[Tensor, Tensor]]
    ) -> tuple[Float[Tensor, "batch time classes"], list[tuple[Tensor, Tensor]]]:
        """Run all blocks, after what is cached."""
        x = self.embedding(tokens)
        if self.positions is not None:
            begin = state[0][0].shape[2]
            if begin + tokens.shape[1] > MAX_POSITIONS:
                raise RunError(
                    f"a transformer with learned positions reads at most {MAX_POSITIONS} symbols, "
                    f"got {begin + tokens.shape[1]}; use shorter sequences, or positions=none"
                )
            x = x + self.positions(torch.arange(begin, begin + tokens.shape[1], device=tokens.device))
        after = []
        for block, cache in zip(self.blocks, state, strict=True):
            x, cache = block(x, cache)
            after.append(cache)
        return self.readout(self.norm(x)), after

    def sequences_at_once(self, length: int) -> int:
        """Bound the keys and values that a sequence leaves behind."""
        return max(1, _CACHE_FLOATS // (2 * len(self.blocks) * self.readout.weight.shape[1] * length))
