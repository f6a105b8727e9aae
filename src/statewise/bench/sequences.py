"""How long do long sequences of real inputs take, forward and backward, against nn.LSTM and SLiCE?"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from statewise.bench.timing import Row, best_times, require_close
from statewise.errors import ToolMissingError
from statewise.models.layer import BilinearRNN
from statewise.recurrence import unroll
from statewise.transitions import Block, Diagonal, Full

HIDDEN = 64


def measure_long() -> list[Row]:
    """Time B 8, T 1,000: rotations, diagonals and small blocks."""
    batch, length = 8, 1_000
    x = _inputs(batch, length)
    lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
    rows = []
    for level, block, against_lstm, against_slice in (
        ("rotation", 1, 5.0, 5.0),
        ("diagonal", 1, 5.0, 5.0),
        ("block(2)", 2, 1.0, 3.0),
        ("block(4)", 4, 1.0, 3.0),
    ):
        rnn = _checked(level, x)
        calls = {"ours": _train(rnn, x), "lstm": _train(lstm, x), **_slices(block, x)}
        times = best_times(calls, repeats=4, most_s=20.0)
        case = f"{level}, B {batch}, T {length:,}, H {HIDDEN}, forward and backward"
        rows.append(Row(case, "nn.LSTM", times["ours"], times["lstm"], against_lstm))
        better = min(seconds for name, seconds in times.items() if name.startswith("SLiCE"))
        rows.append(Row(case, f"SLiCE, block {block}, its better mode", times["ours"], better, against_slice))
    return rows


def measure_inputs(batch: int = 8, length: int = 64) -> list[Row]:
    """Time full matrices of real-valued inputs against the products that they need, and against nn.LSTM."""
    x = _inputs(batch, length)
    rnn, lstm = _checked("full", x), nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
    flat, weight = x.flatten(0, 1), torch.randn(HIDDEN, HIDDEN**2)
    matrices = torch.randn(len(flat), HIDDEN**2)

    def products() -> None:
        torch.mm(flat, weight)
        torch.mm(flat.T, matrices)

    calls = {"ours": _train(rnn, x), "products": products, "lstm": _train(lstm, x)}
    times = best_times(calls, repeats=300, least_s=0.003, most_s=20.0, clock=time.process_time)
    case = f"full, real-valued inputs, B {batch}, T {length}, H = D = {HIDDEN}, forward and backward, processor time"
    limit = f"2 products of {len(flat)} x {HIDDEN} x {HIDDEN**2}"
    return [
        Row(case, limit, times["ours"], times["products"], 0.6),
        Row(case, "nn.LSTM", times["ours"], times["lstm"]),
    ]


def measure_one_stream() -> list[Row]:
    """Time one sequence of 10,000 steps: rotations and diagonals, also against stepping through it."""
    length = 10_000
    x = _inputs(1, length)
    lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
    rows = []
    for level in ("rotation", "diagonal"):
        rnn = _checked(level, x)
        times = best_times({"ours": _train(rnn, x), "lstm": _train(lstm, x)}, repeats=3, most_s=30.0)
        case = f"{level}, B 1, T {length:,}, H {HIDDEN}, forward and backward"
        rows.append(Row(case, "nn.LSTM", times["ours"], times["lstm"], 5.0))
        rows.append(Row(case, "the step loop", times["ours"], _once(_train(_Steps(rnn), x)), 50.0))
    return rows


class _Steps(nn.Module):
    """The same layer, one call of `step` after another."""

    def __init__(self, rnn: BilinearRNN) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = self.rnn.init_state(x.shape[0])
        outputs = []
        for t in range(x.shape[1]):
            y, state = self.rnn.step(x[:, t], state)
            outputs.append(y)
        return torch.stack(outputs, dim=1), state


def _inputs(batch: int, length: int) -> Tensor:
    x = torch.randn(batch, length, HIDDEN, generator=torch.Generator().manual_seed(0)) / HIDDEN**0.5
    x[..., 0] = 1
    return x


def _checked(level: str, x: Tensor) -> BilinearRNN:
    rnn = BilinearRNN(HIDDEN, HIDDEN, level, generator=torch.Generator().manual_seed(0))
    _settle(rnn)
    few = x[:, :50]
    fast, slow = rnn(few)[0], unroll(rnn.transitions[0], few, rnn.init_state(x.shape[0])[0])[0]
    require_close(level, fast, slow)
    weights = list(rnn.layers.parameters())
    along = torch.randn(fast.shape, generator=torch.Generator().manual_seed(1))
    for a, b in zip(*(torch.autograd.grad((out * along).sum(), weights) for out in (fast, slow)), strict=True):
        require_close(level, a, b)
    return rnn


def _settle(rnn: BilinearRNN) -> None:
    """Bring A(x) near 1, as in a recurrence that has learned to remember: a thousand steps then stay in range."""
    with torch.no_grad():
        transition = rnn.layers[0]
        if isinstance(transition, Diagonal | Block):
            transition.weight.mul_(0.01)
            one = torch.ones(HIDDEN) if isinstance(transition, Diagonal) else torch.eye(transition.size)
            transition.weight[..., 0] = one
        if isinstance(transition, Full):
            transition.matrices.mul_(0.01)
            transition.matrices[0] = torch.eye(HIDDEN)


def _train(model: Any, x: Tensor) -> Callable[[], None]:
    def one() -> None:
        model.zero_grad(set_to_none=True)
        output = model(x)
        (output[0] if isinstance(output, tuple) else output).sum().backward()

    return one


def _slices(block: int, x: Tensor) -> dict[str, Callable[[], None]]:
    try:
        from slices import SLiCE
    except ImportError:
        raise ToolMissingError("torch-slices is not installed; install it to measure against it") from None
    calls: dict[str, Callable[[], None]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for parallel in (False, True):
            model = SLiCE(HIDDEN, HIDDEN, bias=False, block_size=block, use_parallel=parallel)
            calls[f"SLiCE {'parallel' if parallel else 'recurrent'}"] = _train(model, x)
    return calls


def _once(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
