"""A decoder-only Transformer in GPT-2's form (Radford et al., 2019), in plain torch."""

from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.errors import RunError, TransitionError
from statewise.models.baselines.stack import Entered, Recurrence, run_blocks, run_for_answers
from statewise.models.interface import RecurrentModel

Positions = Literal["learned", "none"]
Cache = tuple[Tensor, Tensor]
MAX_POSITIONS = 1024
# floats that cached keys and values may take
_CACHE_FLOATS = 100_000_000


class TransformerBlock(Recurrence):
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

    def init_state(self, batch: int) -> Cache:
        """Return empty caches."""
        weight = self.projection.weight
        empty = weight.new_zeros(batch, self.heads, 0, len(weight) // self.heads)
        return empty, empty

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute query, key and value, side by side."""
        return (self.attention(self.ln_1(x)),)

    def mix(self, entered: Entered, state: Cache) -> tuple[tuple[Tensor, ...], Cache]:
        """Attend to what was cached and to itself, never ahead."""
        (parts,) = entered.each()
        query, key, value = parts.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        earlier = state[0].shape[2]
        if earlier:
            key, value = torch.cat([state[0], key], dim=2), torch.cat([state[1], value], dim=2)
            seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=parts.device).tril(earlier)
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        else:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return (attended.transpose(1, 2),), (key, value)

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Add what was attended to, then the MLP."""
        (attended,) = mixed
        x = x + self.projection(attended.flatten(-2))
        return x + self.narrow(F.gelu(self.widen(self.ln_2(x)), approximate="tanh"))


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

    def init_state(self, batch: int) -> list[Cache]:
        """Return empty caches."""
        return [block.init_state(batch) for block in self._stack()]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[Cache]
    ) -> tuple[Float[Tensor, "batch time classes"], list[Cache]]:
        """Run all blocks, after what is cached."""
        x, after = run_blocks(self._stack(), *self._inputs(tokens, state[0][0].shape[2]), state)
        return self.readout(self.norm(x)), after

    def answers(
        self, tokens: Int[Tensor, "batch time"], rows: Int[Tensor, " answer"], places: Int[Tensor, " answer"]
    ) -> Float[Tensor, "answer classes"]:
        """Run all blocks, but for padding."""
        return self.readout(self.norm(run_for_answers(self._stack(), *self._inputs(tokens, 0), rows, places)))

    def _inputs(self, tokens: Int[Tensor, "batch time"], begin: int) -> tuple[Tensor, Tensor]:
        """Return all inputs that can occur, and which of them each token is: symbols, or pairs of place and symbol."""
        table = self.embedding.weight
        if self.positions is None:
            return table, tokens
        end = begin + tokens.shape[1]
        if end > MAX_POSITIONS:
            raise RunError(
                f"a transformer with learned positions reads at most {MAX_POSITIONS} symbols, "
                f"got {end}; use shorter sequences, or positions=none"
            )
        places = torch.arange(tokens.shape[1], device=tokens.device) * len(table)
        pairs = self.positions.weight[begin:end].unsqueeze(1) + table
        return pairs.flatten(0, 1), tokens + places

    def _stack(self) -> list[TransformerBlock]:
        return [block for block in self.blocks if isinstance(block, TransformerBlock)]

    def sequences_at_once(self, length: int) -> int:
        """Bound the keys and values that a sequence leaves behind."""
        return max(1, _CACHE_FLOATS // (2 * len(self.blocks) * self.readout.weight.shape[1] * length))
