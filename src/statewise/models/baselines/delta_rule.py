"""The delta rule: a matrix that is corrected, under each key, towards a value; and the mixer around it."""

from abc import ABC
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.linear_attention import GatedOutputNorm, LinearAttentionTracker, Output, OutputNorm
from statewise.models.baselines.selective_scan import initial_steps
from statewise.models.baselines.short_convolution import convolve
from statewise.models.baselines.stack import Entered, Recurrence, check_heads

_KERNEL, _KEY_EPS = 4, 1e-6
# steps that are solved together; 20 is fastest here for heads of 16
_CHUNK = 20
_A_LOW, _A_HIGH = 0.01, 16.0

State = Float[Tensor, "rows key value"]


class NoDecay(nn.Module):
    """A state that keeps its size: alpha = 1."""

    parts = 0

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return nothing."""
        return ()

    def rule(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Take the steps of the delta rule."""
        return plain_delta_rule(q, k, v, beta, state)


class ScalarDecay(nn.Module):
    """One factor in (0, 1) for each head: log alpha_t = -exp(A_log) softplus(W_a x_t + dt_bias), as in Mamba-2."""

    parts = 1

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.a_proj = nn.Linear(width, heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(heads).uniform_(_A_LOW, _A_HIGH).log())
        self.dt_bias = nn.Parameter(initial_steps(heads))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the logarithms of the factors."""
        return (-self.A_log.exp() * F.softplus(self.a_proj(x) + self.dt_bias),)

    def rule(
        self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor, decay: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Take the steps of the delta rule; a token decays the state once, before its first step."""
        n = k.shape[1] // q.shape[1]
        decay = F.pad(decay.transpose(1, 2).flatten(0, 1).unsqueeze(-1), (0, n - 1)).flatten(1)
        return delta_rule(q, k, v, beta, decay, state)


Decay = NoDecay | ScalarDecay


class DeltaMixer(Recurrence):
    """q, k, v = silu(convolution(W x)), k and q of length 1, then n steps of the delta rule per token.

    Args:
        width: of inputs and outputs.
        heads: how many states, each of width / heads squared.
        n: how many steps a token takes, each with a key, a value and a beta of its own.
        negative: whether beta = 2 sigmoid(W_b x) is in (0, 2), so that I - beta k k^T has an eigenvalue in (-1, 1);
            otherwise beta is in (0, 1), and the eigenvalue too.
        decay: log alpha from the input.
        output: the end of the mixer.
    """

    def __init__(self, width: int, heads: int, n: int, negative: bool, decay: Decay, output: Output) -> None:
        super().__init__()
        self.width, self.heads, self.n = width, heads, n
        self.top = 2.0 if negative else 1.0
        channels = (1 + 2 * n) * width
        self.qkv_proj = nn.Linear(width, channels, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, _KERNEL, groups=channels, bias=False)
        self.b_proj = nn.Linear(width, n * heads, bias=False)
        self.decay, self.output = decay, output

    def init_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """Return zeros for the last inputs of the convolution, and for the matrices."""
        weight, size = self.b_proj.weight, self.width // self.heads
        tail = weight.new_zeros(batch, _KERNEL - 1, self.conv1d.in_channels)
        return tail, weight.new_zeros(batch, self.heads, size, size)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute what is convolved, beta and log alpha, and what the output needs."""
        beta = self.top * self.b_proj(x).sigmoid().unflatten(-1, (self.n, self.heads))
        return self.qkv_proj(x), beta, *self.decay(x), *self.output.enter(x)

    def mix(self, entered: Entered, state: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor]]:
        """Run from a state: the last inputs of the convolution, and the matrices."""
        tail, matrices = state
        qkv, beta, *rest = entered.each()
        decay, gate = rest[: self.decay.parts], rest[self.decay.parts :]
        batch, time, n, heads = *qkv.shape[:2], self.n, self.heads
        extended = torch.cat([tail, qkv], dim=1)
        qkv = F.silu(convolve(extended, self.conv1d.weight, qkv.new_zeros(())))
        # heads next to the batch, then time, and within a token its query, its keys and its values
        parts = qkv.view(batch, time, 1 + 2 * n, heads, -1).permute(0, 3, 1, 2, 4).flatten(0, 1)
        unit, v = _unit(parts[:, :, : 1 + n]), parts[:, :, 1 + n :].flatten(1, 2)
        q, k = unit[:, :, 0] * unit.shape[-1] ** -0.5, unit[:, :, 1:].flatten(1, 2)
        beta = beta.permute(0, 3, 1, 2).reshape(batch * heads, time * n)
        o, last = self.decay.rule(q, k, v, beta, matrices.flatten(0, 1), *decay)
        o = o.unflatten(0, (batch, heads)).transpose(1, 2)
        return (o, *gate), (extended[:, extended.shape[1] - (_KERNEL - 1) :], last.view_as(matrices))

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Normalise and mix the heads."""
        return self.output(*mixed)


class DeltaTracker(LinearAttentionTracker, ABC):
    """A network of delta rules with one step per token.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        negative: whether beta is in (0, 2), for negative eigenvalues, and not in (0, 1), the model's own.
        heads: how many heads.
    """

    # as users write it, and whether the state decays and the output is gated
    name: ClassVar[str]
    gated: ClassVar[bool]

    def __init__(
        self,
        symbols: int,
        classes: int,
        hidden_size: int,
        layers: int = 1,
        negative: bool = False,
        heads: int = 4,
    ) -> None:
        mixers = delta_mixers(self.name, hidden_size, heads, layers, 1, negative, self.gated)
        super().__init__(symbols, classes, hidden_size, mixers)


def delta_mixers(
    name: str, width: int, heads: int, layers: int, n: int, negative: bool, gated: bool
) -> list[DeltaMixer]:
    """Return a mixer for each block; heads that do not divide the width are refused.

    Args:
        name: of the model, as the user writes it.
        width: of inputs and outputs.
        heads: how many states a mixer has.
        layers: how many mixers.
        n: how many steps a token takes.
        negative: whether beta is in (0, 2).
        gated: whether the state decays and the output is gated.
    """
    check_heads(name, width, heads)
    mixers = []
    for _ in range(layers):
        decay = ScalarDecay(width, heads) if gated else NoDecay()
        output = GatedOutputNorm(width, heads) if gated else OutputNorm(width, heads)
        mixers.append(DeltaMixer(width, heads, n, negative, decay, output))
    return mixers


def delta_rule(
    q: Float[Tensor, "rows time key"],
    k: Float[Tensor, "rows steps key"],
    v: Float[Tensor, "rows steps value"],
    beta: Float[Tensor, "rows steps"],
    decay: Float[Tensor, "rows steps"],
    state: State,
) -> tuple[Float[Tensor, "rows time value"], State]:
    """Compute S_i = exp(decay_i) (I - beta_i k_i k_i^T) S_{i-1} + beta_i k_i v_i^T, and read o_t = S_{t n}^T q_t.

    There are n steps per token. Steps are taken by chunks (Yang et al., 2024): with c_i the sum of a chunk's decays
    up to i, and S the state before the chunk,

        S_i = exp(c_i) S + sum_{j <= i} exp(c_i - c_j) k_j u_j^T,

    where the corrections u solve a triangular system with ones on its diagonal,

        u_i + beta_i sum_{j < i} exp(c_i - c_j) (k_i^T k_j) u_j = beta_i (v_i - exp(c_i) S^T k_i).

    Every exponent is at most 0, so nothing overflows.

    Args:
        q: how the state is read, after the last step of each token.
        k: the keys, of length 1.
        v: the values.
        beta: how far the value under a key is corrected.
        decay: logarithms of the factors by which the state shrinks before a step.
        state: the matrices before the first step.
    """
    n = k.shape[1] // q.shape[1]
    tokens = max(1, _CHUNK // n)
    ahead = torch.ones(tokens * n, tokens * n, dtype=torch.bool, device=q.device).triu(1)
    steps = [part.split(tokens * n, dim=1) for part in (k, v, beta.unsqueeze(-1), decay)]
    outputs = []
    for chunk in zip(q.split(tokens, dim=1), *steps, strict=True):
        o, state = _take_chunk(*chunk, state=state, ahead=ahead)
        outputs.append(o)
    return torch.cat(outputs, dim=1), state


def plain_delta_rule(
    q: Float[Tensor, "rows time key"],
    k: Float[Tensor, "rows steps key"],
    v: Float[Tensor, "rows steps value"],
    beta: Float[Tensor, "rows steps"],
    state: State,
) -> tuple[Float[Tensor, "rows time value"], State]:
    """Do the same without any decay: no exponentials are needed.

    Args:
        q: how the state is read, after the last step of each token.
        k: the keys, of length 1.
        v: the values.
        beta: how far the value under a key is corrected.
        state: the matrices before the first step.
    """
    n = k.shape[1] // q.shape[1]
    tokens = max(1, _CHUNK // n)
    # queries read after the last step of a token
    past = torch.ones(tokens * n, tokens * n, dtype=q.dtype, device=q.device).tril()[n - 1 :: n]
    steps = [part.split(tokens * n, dim=1) for part in (k, v, beta.unsqueeze(-1))]
    outputs = []
    for q_chunk, k_chunk, v_chunk, beta_chunk in zip(q.split(tokens, dim=1), *steps, strict=True):
        weighted = beta_chunk * k_chunk
        right = torch.baddbmm(beta_chunk * v_chunk, weighted, state, alpha=-1)
        # what is above the diagonal of the system is not read
        system = torch.bmm(weighted, k_chunk.mT)
        u = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
        read = torch.bmm(q_chunk, k_chunk.mT) * past[: q_chunk.shape[1], : k_chunk.shape[1]]
        outputs.append(torch.baddbmm(torch.bmm(read, u), q_chunk, state))
        state = torch.baddbmm(state, k_chunk.mT, u)
    return torch.cat(outputs, dim=1), state


def _take_chunk(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor, state: State, ahead: Bool[Tensor, "steps steps"]
) -> tuple[Tensor, State]:
    size, n = k.shape[1], k.shape[1] // q.shape[1]
    total = decay.cumsum(dim=1)
    ahead = ahead[:size, :size]
    between = (total.unsqueeze(2) - total.unsqueeze(1)).masked_fill(ahead, -torch.inf).exp()
    since = total.exp().unsqueeze(-1)
    until = (total[:, -1:] - total).exp().unsqueeze(-1)
    weighted = beta * k
    system = torch.bmm(weighted, k.mT) * between
    right = torch.baddbmm(beta * v, weighted * since, state, alpha=-1)
    u = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    # queries read after the last step of a token
    read = torch.bmm(q, k.mT) * between[:, n - 1 :: n]
    o = torch.baddbmm(torch.bmm(read, u), q * since[:, n - 1 :: n], state)
    return o, torch.baddbmm(state * since[:, -1:], (k * until).mT, u)


def _unit(x: Tensor) -> Tensor:
    """Divide by the length; vectors near zero stay near zero."""
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + _KEY_EPS)
