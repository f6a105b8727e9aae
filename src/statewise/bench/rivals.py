"""Is the recurrence of every rival at least as fast as an implementation that is not ours, forward and backward?

Rivals without one in plain torch are compared with their equation, a step at a time. Inputs are the same, and outputs
and gradients are compared before anything is timed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from statewise.bench.timing import Row, best_times, require_close
from statewise.models.baselines.delta_chunks import generalised_delta
from statewise.models.baselines.delta_rule import delta_rule, plain_delta_rule
from statewise.models.baselines.gla import gated_attention
from statewise.models.baselines.mamba3 import trapezoidal_attention
from statewise.models.baselines.mlstm import mlstm_chunks
from statewise.models.baselines.pd_ssm import sparse_scan
from statewise.models.baselines.slice import SliceTracker
from statewise.models.baselines.slstm import slstm_scan

WIDTH, HEADS, BATCH = 64, 4, 64
SIZE = WIDTH // HEADS
_LOOP = "its equation, step by step"


@dataclass(frozen=True)
class Case:
    """A recurrence twice: ours and another's, of the same inputs.

    Args:
        rival: what we are compared with.
        given: what outputs are differentiated by.
        ours: computes the outputs.
        theirs: computes them too.
        copied: what the other's outputs are differentiated by, in the same order, where it has weights of its own.
        transposed: the places of weights that the other has transposed.
    """

    rival: str
    given: tuple[Tensor, ...]
    ours: Callable[[], Tensor]
    theirs: Callable[[], Tensor]
    copied: tuple[Tensor, ...] | None = None
    transposed: frozenset[int] = frozenset()


def measure_rivals(batch: int = BATCH, times: tuple[int, ...] = (10, 64, 256), repeats: int = 7) -> list[Row]:
    """Time a forward and a backward pass of every rival's recurrence.

    Args:
        batch: how many sequences.
        times: their lengths.
        repeats: how often each is timed.
    """
    rows = []
    for time in times:
        for name, build in CASES.items():
            case = build(batch, time)
            what = f"{name}, H {WIDTH}, B {batch}, T {time}, forward and backward"
            rows.append(compare_both_ways(what, case, repeats))
    return rows


def compare_both_ways(what: str, case: Case, repeats: int = 7) -> Row:
    """Compare outputs and gradients, then time a forward and a backward pass of both.

    Args:
        what: the work, for the row.
        case: both computations.
        repeats: how often each is timed.
    """
    ours = _both_ways(case.ours, case.given)
    theirs = _both_ways(case.theirs, case.given if case.copied is None else case.copied)
    # the outputs stand before the gradients
    for place, (found, expected) in enumerate(zip(ours(), theirs(), strict=True), start=-1):
        require_close(what, found, expected.T if place in case.transposed else expected)
    taken = best_times({"ours": ours, "theirs": theirs}, repeats=repeats)
    return Row(what, case.rival, taken["ours"], taken["theirs"], target=1.0)


def _both_ways(call: Callable[[], Tensor], given: tuple[Tensor, ...]) -> Callable[[], tuple[Tensor, ...]]:
    """Return what computes the outputs, and the gradients of the sum of their squares."""

    def run() -> tuple[Tensor, ...]:
        outputs = call()
        return outputs, *torch.autograd.grad(outputs.square().sum(), given)

    return run


def _draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    made = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=made) for shape in shapes]


def _trained(*parts: Tensor) -> tuple[Tensor, ...]:
    return tuple(part.detach().requires_grad_() for part in parts)


def _steps(dim: int, *parts: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Return the parts of each step; taken apart at once, since autograd fills a whole tensor for each step taken."""
    return zip(*(part.unbind(dim) for part in parts), strict=True)


def _gla(batch: int, time: int) -> Case:
    rows = (batch * HEADS, time, SIZE)
    q, k, v, decay = _draw(rows, rows, rows, rows)
    q, k, v, decay = given = _trained(q, k, v, F.logsigmoid(decay) / 16)
    first = q.new_zeros(batch * HEADS, SIZE, SIZE)

    def loop() -> Tensor:
        S, outputs = first, []
        for query, key, value, rate in _steps(1, *given):
            S = rate.exp().unsqueeze(-1) * S + key.unsqueeze(-1) * value.unsqueeze(1)
            outputs.append((query.unsqueeze(1) @ S).squeeze(1))
        return torch.stack(outputs, dim=1)

    return Case(_LOOP, given, lambda: gated_attention(q, k, v, decay, first)[0], loop)


def _delta(batch: int, time: int, n: int, decays: bool) -> Case:
    from transformers.models.olmo_hybrid.modeling_olmo_hybrid import torch_chunk_gated_delta_rule as published

    rows = batch * HEADS
    q, k, v, beta, decay = _draw(
        (rows, time, SIZE), (rows, time * n, SIZE), (rows, time * n, SIZE), (rows, time * n), (rows, time, 1)
    )
    q, k, v, beta = given = _trained(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, beta.sigmoid())
    decay = F.pad(F.logsigmoid(decay), (0, n - 1)).flatten(1) if decays else beta.new_zeros(beta.shape)
    first = q.new_zeros(rows, SIZE, SIZE)

    def ours() -> Tensor:
        scaled = q * SIZE**-0.5
        result = delta_rule(scaled, k, v, beta, decay, first) if decays else plain_delta_rule(scaled, k, v, beta, first)
        return result[0]

    def theirs() -> Tensor:
        # time is stretched n-fold, and read at the last step of each token; heads come after time
        parts = (part.unflatten(0, (batch, HEADS)).transpose(1, 2) for part in (q.repeat_interleave(n, dim=1), k, v))
        g, b = (part.unflatten(0, (batch, HEADS)).transpose(1, 2) for part in (decay, beta))
        return published(*parts, g=g, beta=b)[0][:, n - 1 :: n].transpose(1, 2).flatten(0, 1)

    return Case("transformers, chunks", given, ours, theirs)


def _rwkv7(batch: int, time: int) -> Case:
    rows = (batch, HEADS, time, SIZE)
    r, log_w, k, v, kappa, a = _draw(*[rows] * 6)
    parts = (r, -0.6 * log_w.sigmoid(), k, v, F.normalize(kappa, dim=-1), a.sigmoid())
    given = _trained(*parts)
    first = r.new_zeros(batch, HEADS, SIZE, SIZE)

    def loop() -> Tensor:
        S, outputs = first, []
        for r, log_w, k, v, kappa, a in _steps(2, *given):
            away = (S @ kappa.unsqueeze(-1)) * (a * kappa).unsqueeze(2)
            S = S * log_w.exp().unsqueeze(2) - away + v.unsqueeze(-1) * k.unsqueeze(2)
            outputs.append((S @ r.unsqueeze(-1)).squeeze(-1))
        return torch.stack(outputs, dim=2)

    return Case(_LOOP, given, lambda: generalised_delta(*given, first=first)[0], loop)


def _mlstm(batch: int, time: int) -> Case:
    # where the package xlstm is installed, transformers would hand out that one's
    with patch("transformers.utils.is_xlstm_available", return_value=False):
        from transformers.models.xlstm.modeling_xlstm import mlstm_recurrent_sequence_native as published

    rows, gates = (batch, HEADS, time, SIZE), (batch, HEADS, time)
    q, k, v, i, f = given = _trained(*_draw(rows, rows, rows, gates, gates))
    zeros = q.new_zeros
    C, n, m = zeros(batch, HEADS, SIZE, SIZE), zeros(batch, HEADS, SIZE), zeros(batch, HEADS)

    def theirs() -> Tensor:
        states = (C, n, m.unsqueeze(-1))
        return published(q, k, v, i, f, *states, return_last_states=True, eps=0.0, dtype_state=torch.float32)[0]

    return Case("transformers, native", given, lambda: mlstm_chunks(q, k, v, i, f, (C, n, m))[0], theirs)


def _slstm(batch: int, time: int) -> Case:
    from xlstm.blocks.slstm.src.vanilla import slstm_forward, slstm_pointwise_function_registry

    inputs, R = _draw((time, HEADS, batch, 4 * SIZE), (HEADS, SIZE, 4 * SIZE))
    # larger ones would make a recurrence in which rounding grows
    inputs, R = given = _trained(inputs, 0.5 * SIZE**-0.5 * R)
    zeros = inputs.new_zeros(HEADS, batch, SIZE)
    first, bias = inputs.new_zeros(4, batch, WIDTH), inputs.new_zeros(4 * WIDTH)

    def theirs() -> Tensor:
        gates = inputs.unflatten(-1, (4, SIZE)).permute(0, 2, 3, 1, 4).flatten(2)
        states, _, _ = slstm_forward(gates, first, R.mT, bias, slstm_pointwise_function_registry["slstm"])
        return states[0, 1:].unflatten(-1, (HEADS, SIZE)).transpose(1, 2)

    state = (zeros, zeros, zeros, torch.full_like(zeros, -1e30))
    return Case("xlstm, vanilla", given, lambda: slstm_scan(inputs, R, state)[0], theirs)


def _slice(batch: int, time: int, block: int) -> Case:
    from slices import StackedSLiCE

    symbols = 5
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = SliceTracker(symbols, symbols, WIDTH, block)
    theirs = StackedSLiCE(
        1, symbols, WIDTH, symbols, block_size=block, use_parallel=False, dropout_rate=0.0, path_mode="increments"
    )
    theirs.load_state_dict({_slice_name(name): value for name, value in ours.state_dict().items()})
    tokens = torch.randint(0, symbols, (batch, time), generator=torch.Generator().manual_seed(0))
    copied = dict(theirs.named_parameters())
    pairs = [(value, copied[_slice_name(name)]) for name, value in ours.named_parameters()]
    return Case(
        "torch-slices",
        tuple(mine for mine, _ in pairs),
        lambda: ours(tokens),
        lambda: theirs(tokens),
        tuple(other for _, other in pairs),
    )


def _slice_name(name: str) -> str:
    """Return what torch-slices calls a weight."""
    return name.replace("blocks.", "layers.").replace("readout.", "linear.")


def _pd_ssm(batch: int, time: int) -> Case:
    soft, D, b = _draw((time * batch, WIDTH, WIDTH), (time, batch, WIDTH, 2), (time, batch, WIDTH, 2))
    soft, D, b = given = _trained(soft.softmax(dim=-1), 0.5 * D, b)
    codes = torch.arange(time * batch).view(time, batch)
    first = torch.view_as_complex(D.new_zeros(batch, WIDTH, 2))

    def ours() -> Tensor:
        return torch.view_as_real(sparse_scan(soft, torch.view_as_complex(D), torch.view_as_complex(b), first, codes))

    def loop() -> Tensor:
        diagonal, added = map(torch.view_as_complex, (D, b))
        hard = F.one_hot(soft.argmax(dim=-1), WIDTH) + soft - soft.detach()
        x, states = first, []
        for P, each, more in _steps(0, hard.mT.unflatten(0, (time, batch)).to(diagonal.dtype), diagonal, added):
            x = (P @ (each * x).unsqueeze(-1)).squeeze(-1) + more
            states.append(x)
        return torch.view_as_real(torch.stack(states))

    return Case(_LOOP, given, ours, loop)


def _mamba3(batch: int, time: int) -> Case:
    rows, size = batch * HEADS, 2 * SIZE
    q, k, v, decay, after, before = _draw(*[(rows, time, SIZE)] * 2, (rows, time, size), *[(rows, time)] * 3)
    given = _trained(q, k, v, F.logsigmoid(decay), after.sigmoid(), before.sigmoid())
    first = (q.new_zeros(rows, SIZE, size), q.new_zeros(rows, SIZE), q.new_zeros(rows, size))

    def loop() -> Tensor:
        S, key, value = first
        outputs = []
        for query, next_key, next_value, rate, late, early in _steps(1, *given):
            S = S + (early.unsqueeze(1) * key).unsqueeze(-1) * value.unsqueeze(1)
            key, value = next_key, next_value
            S = rate.view(-1, 1, 1).exp() * S + (late.unsqueeze(1) * key).unsqueeze(-1) * value.unsqueeze(1)
            outputs.append((query.unsqueeze(1) @ S).squeeze(1))
        return torch.stack(outputs, dim=1)

    return Case(_LOOP, given, lambda: trapezoidal_attention(*given, state=first)[0], loop)


CASES: Mapping[str, Callable[[int, int], Case]] = {
    "gla": _gla,
    "deltanet": lambda batch, time: _delta(batch, time, 1, False),
    "gated_deltanet": lambda batch, time: _delta(batch, time, 1, True),
    "deltaproduct(2)": lambda batch, time: _delta(batch, time, 2, False),
    "deltaproduct(4, gated=true)": lambda batch, time: _delta(batch, time, 4, True),
    "rwkv7": _rwkv7,
    "mlstm": _mlstm,
    "slstm": _slstm,
    "slice(1)": lambda batch, time: _slice(batch, time, 1),
    "slice(4)": lambda batch, time: _slice(batch, time, 4),
    "pd_ssm": _pd_ssm,
    "mamba3": _mamba3,
}
