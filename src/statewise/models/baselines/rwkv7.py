"""RWKV-7: the generalised delta rule with a decay for each channel (Peng et al., 2025, 2503.14456), in plain torch."""

import math
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.delta_chunks import generalised_delta
from statewise.models.baselines.stack import CHUNK_FLOATS, Entered, Sequence, Table, check_heads, pick
from statewise.models.interface import RecurrentModel

_RANK, _WIDER, _FLOATS = 32, 4, 16
# the shift of each input begins at 1 - (channel / width) ** power in the lowest layer
_POWERS = {"r": 0.2, "k": 0.7, "v": 0.7, "d": 0.9, "a": 0.9, "g": 0.2}

Last = Float[Tensor, "batch width"]
Matrix = Float[Tensor, "batch heads value key"]
State = tuple[Last, Last, Matrix]


class LowRank(nn.Module):
    """A low-rank MLP: f(x A) B + lambda."""

    def __init__(self, width: int, act: Callable[[Tensor], Tensor], bias: Tensor | None) -> None:
        super().__init__()
        self.act = act
        self.A = nn.Linear(width, _RANK, bias=False)
        self.B = nn.Linear(_RANK, width, bias=bias is not None)
        nn.init.zeros_(self.A.weight)
        nn.init.orthogonal_(self.B.weight, gain=0.1)
        if bias is not None:
            with torch.no_grad():
                self.B.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply both matrices, with the function between them."""
        return self.B(self.act(self.A(x)))


class TimeMix(nn.Module):
    """One recurrence of matrices, a head each: S_t = S_{t-1} (diag(w_t) - kappa_t^T (a_t * kappa_t)) + v_t^T k_t.

    Every input x^c is (1 - mu_c) x_t + mu_c x_{t-1}, c = r, k, v, d, a, g. Then r = x^r W_r; w = exp(-exp(-1/2)
    sigmoid(d)); d, a = sigmoid(.), the share nu = sigmoid(.) of the lowest layer's value in v, and the gate g are
    low-rank MLPs; kappa is xi * x^k W_k, of length 1 in each head; k = x^k W_k * (1 + alpha (a - 1)). The output is
    (g * (LayerNorm(S_t r_t) + (r_t . rho * k_t) v_t)) W_o.
    """

    def __init__(self, width: int, heads: int, layer: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        place = torch.arange(width) / width
        depth = layer / max(1, layers - 1)
        powers = torch.tensor([power * (1 - layer / layers) for power in _POWERS.values()])
        self.mu = nn.Parameter(1 - place ** powers.unsqueeze(1))
        self.W_r, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width, bias=False) for _ in range(4))
        for linear, gain in ((self.W_r, 1.0), (self.W_k, 0.1), (self.W_v, 1.0)):
            nn.init.orthogonal_(linear.weight, gain=gain)
        nn.init.zeros_(self.W_o.weight)
        self.d = LowRank(width, torch.tanh, -5.5 + 6 * place ** (1 + depth**0.3))
        self.a = LowRank(width, nn.Identity(), torch.zeros(width))
        self.g = LowRank(width, torch.sigmoid, None)
        # the lowest layer mixes its values with none
        self.nu = LowRank(width, nn.Identity(), torch.ones(width)) if layer else None
        self.xi = nn.Parameter(torch.full((width,), 0.85))
        self.alpha = nn.Parameter(torch.ones(width))
        self.rho = nn.Parameter(torch.zeros(heads, width // heads))
        self.norm = nn.GroupNorm(heads, width, eps=1e-5 * width / heads)

    def enter(self, x: Tensor, shifted: Tensor, lowest: Tensor | None) -> tuple[Tensor, ...]:
        """Compute r, log w, k, v, kappa and a side by side, the term of rho, and the gate.

        Args:
            x: the inputs.
            shifted: how far those before them are away.
            lowest: the values of the lowest layer; None in that layer.
        """
        x_r, x_k, x_v, x_d, x_a, x_g = (torch.addcmul(x, shifted, mu) for mu in self.mu)
        r, k, v, a = self.W_r(x_r), self.W_k(x_k), self.W_v(x_v), self.a(x_a).sigmoid()
        log_w = -math.exp(-0.5) * self.d(x_d).sigmoid()
        if self.nu is not None and lowest is not None:
            v = torch.lerp(v, lowest, self.nu(x_v).sigmoid())
        kappa = F.normalize((k * self.xi).unflatten(-1, (self.heads, -1)), dim=-1).flatten(-2)
        k = k * (1 + self.alpha * (a - 1))
        parts = torch.stack([r, log_w, k, v, kappa, a], dim=-2).unflatten(-1, (self.heads, -1))
        bonus = (parts[..., 0, :, :] * self.rho * parts[..., 2, :, :]).sum(dim=-1, keepdim=True) * parts[..., 3, :, :]
        return parts, bonus.flatten(-2), self.g(x_g)

    def mix(self, parts: Tensor, S: Matrix) -> tuple[Float[Tensor, "batch time heads value"], Matrix]:
        """Run from S; return every S_t r_t, and the last S."""
        y, S = generalised_delta(*parts.permute(2, 0, 3, 1, 4).contiguous(), first=S)
        return y.transpose(1, 2), S

    def leave(self, y: Tensor, bonus: Tensor, gate: Tensor) -> Tensor:
        """Normalise the heads, add the term of rho, gate and mix them."""
        normed = F.layer_norm(y, (y.shape[-1],), eps=self.norm.eps).flatten(-2)
        return self.W_o(gate * (torch.addcmul(self.norm.bias, normed, self.norm.weight) + bonus))


class ChannelMix(nn.Module):
    """An MLP over the input and the one before it: relu(x^k W_k)^2 W_v."""

    def __init__(self, width: int, layer: int, layers: int) -> None:
        super().__init__()
        self.mu_k = nn.Parameter(1 - (torch.arange(width) / width) ** ((1 - layer / layers) ** 4))
        self.W_k = nn.Linear(width, _WIDER * width, bias=False)
        self.W_v = nn.Linear(_WIDER * width, width, bias=False)
        nn.init.orthogonal_(self.W_k.weight)
        nn.init.zeros_(self.W_v.weight)

    def forward(self, x: Tensor, shifted: Tensor) -> Tensor:
        """Apply the MLP to inputs, and to how far those before them are away."""
        inner = self.W_k(torch.addcmul(x, shifted, self.mu_k)).relu()
        return self.W_v(inner * inner)


class RWKV7Block(nn.Module):
    """Time mixing, then channel mixing; each with a norm before it and a residual around it."""

    def __init__(self, width: int, heads: int, layer: int, layers: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.time_mix = TimeMix(width, heads, layer, layers)
        self.channel_mix = ChannelMix(width, layer, layers)

    def enter(self, x: Sequence, last: Last, lowest: Sequence | None) -> tuple[Entered, Last]:
        """Compute what the recurrence needs of the inputs and of those before them, and the last normalised input."""
        inner = self.ln_1(x)
        return Entered(self.time_mix.enter(inner, _shift(inner, last), lowest)), inner[:, -1]

    def enter_pairs(self, table: Table, tokens: Int[Tensor, "batch time"], last: Last) -> tuple[Entered, Last]:
        """Do the same for tokens, once for each pair of symbols; first tokens follow upon `last`.

        Args:
            table: the input of each symbol.
            tokens: the symbols.
            last: the normalised input before the first.
        """
        inner, symbols = self.ln_1(table), len(table)
        x = torch.cat([inner.repeat(symbols, 1), pick(inner, tokens[:, 0])])
        before = torch.cat([inner.repeat_interleave(symbols, dim=0), last])
        first = symbols**2 + torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
        codes = torch.cat([first, symbols * tokens[:, :-1] + tokens[:, 1:]], dim=1)
        return Entered(self.time_mix.enter(x, before - x, None), codes), pick(inner, tokens[:, -1])

    def mix(self, x: Sequence, parts: tuple[Tensor, ...], last: Last, S: Matrix) -> tuple[Sequence, Tensor, Matrix]:
        """Add the recurrence; return the sum, its norm beside how far the one before is away, and the last S."""
        recurrent, bonus, gate = parts
        y, S = self.time_mix.mix(recurrent, S)
        x = x + self.time_mix.leave(y, bonus, gate)
        outer = self.ln_2(x)
        return x, torch.stack([outer, _shift(outer, last)], dim=-2), S

    def leave(self, x: Tensor, outer: Tensor) -> Tensor:
        """Add the channel mixing, token by token."""
        return x + self.channel_mix(*outer.unbind(dim=-2))


def _shift(x: Sequence, last: Last) -> Sequence:
    """Return how far the inputs before are away."""
    return torch.cat([last.unsqueeze(1), x[:, :-1]], dim=1) - x


@final
class RWKV7Tracker(RecurrentModel):
    """An embedding with a norm, RWKV-7 blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        heads: how many matrices the state of a block has.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, heads: int = 4) -> None:
        super().__init__()
        check_heads("rwkv7", hidden_size, heads)
        self.heads = heads
        self.embedding = nn.Embedding(symbols, hidden_size)
        self.ln_0 = nn.LayerNorm(hidden_size)
        self.blocks = nn.ModuleList(RWKV7Block(hidden_size, heads, layer, layers) for layer in range(layers))
        self.norm = nn.LayerNorm(hidden_size)
        self.readout = nn.Linear(hidden_size, classes)

    def init_state(self, batch: int) -> list[State]:
        """Return zeros for every block's last inputs and matrices."""
        weight = self.readout.weight
        width = weight.shape[1]
        size = width // self.heads
        last, S = weight.new_zeros(batch, width), weight.new_zeros(batch, self.heads, size, size)
        return [(last, last, S) for _ in self.blocks]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[State]
    ) -> tuple[Float[Tensor, "batch time classes"], list[State]]:
        """Run all blocks, and hand the values of the lowest to the others."""
        (x, outer), after = self._mix(tokens, state)
        return self.readout(self.norm(self._stack()[-1].leave(x, outer))), after

    def answers(
        self, tokens: Int[Tensor, "batch time"], rows: Int[Tensor, " answer"], places: Int[Tensor, " answer"]
    ) -> Float[Tensor, "answer classes"]:
        """Run all blocks, the highest one to its end only where an answer is asked for."""
        mixed, _ = self._mix(tokens, self.init_state(len(tokens)))
        asked = rows * tokens.shape[1] + places
        x, outer = (pick(part.flatten(0, 1), asked) for part in mixed)
        return self.readout(self.norm(self._stack()[-1].leave(x, outer)))

    def _mix(self, tokens: Int[Tensor, "batch time"], state: list[State]) -> tuple[tuple[Tensor, Tensor], list[State]]:
        """Run all blocks but for the end of the highest."""
        blocks, table = self._stack(), self.ln_0(self.embedding.weight)
        x, lowest, after = pick(table, tokens), None, []
        outer = x
        for place, (block, (last_time, last_channel, S)) in enumerate(zip(blocks, state, strict=True)):
            if place:
                x = blocks[place - 1].leave(x, outer)
            # a program that is traced is one for all batches
            whole = torch.compiler.is_compiling() or place > 0
            if not whole and len(table) ** 2 + len(tokens) < tokens.numel():
                entered, inner = block.enter_pairs(table, tokens, last_time)
            else:
                entered, inner = block.enter(x, last_time, lowest)
            parts = entered.each()
            x, outer, S = block.mix(x, parts, last_channel, S)
            after.append((inner, outer[:, -1, 0], S))
            lowest = parts[0][..., 3, :, :].flatten(-2) if lowest is None else lowest
        return (x, outer), after

    def _stack(self) -> list[RWKV7Block]:
        return [block for block in self.blocks if isinstance(block, RWKV7Block)]

    def tokens_at_once(self) -> int:
        """Bound what a chunk of evaluation keeps: each token has several vectors of its own."""
        return max(1, CHUNK_FLOATS // (_FLOATS * self.readout.weight.shape[1]))
