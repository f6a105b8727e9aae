"""How long does a training step over tokens take: forward, backward and Adam, against an einsum and an nn.LSTM?"""

import itertools
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from statewise.bench.timing import Row, best_times, require_close
from statewise.models.tracker import StateTracker
from statewise.recurrence import unroll
from statewise.training.adam import adam_step
from statewise.transitions import Full

BATCH, TIME = 64, 10
_RATE = 1e-6


@runtime_checkable
class Answering(Protocol):
    """A model that is asked after the last token of each sequence."""

    def at_end(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return logits after the last token."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return what is trained."""
        ...


class LSTMTracker(nn.Module):
    """The usual: an embedding, torch's LSTM of the same width, a linear readout of its last output."""

    def __init__(self, symbols: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, symbols)

    def at_end(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return logits after the last token."""
        return self.readout(self.lstm(self.embedding(tokens))[0][:, -1])


class EinsumTracker(nn.Module):
    """The paper's equation as it stands: h[i] = sum_jk W[i, j, k] x[k] h[j], one einsum a step."""

    def __init__(self, like: StateTracker) -> None:
        super().__init__()
        assert isinstance(like.transition, Full)
        assert like.embeddings is not None
        self.weight = nn.Parameter(like.transition.weight.detach().clone().contiguous())
        self.embeddings = nn.Parameter(like.embeddings.detach().clone())
        self.initial_state = nn.Parameter(like.initial_state.detach().clone())
        self.readout = nn.Parameter(like.readout.detach().clone())

    def at_end(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return logits after the last token."""
        h = self.initial_state.expand(len(tokens), -1)
        for t in range(tokens.shape[1]):
            h = torch.einsum("ijk,bk,bj->bi", self.weight, self.embeddings[tokens[:, t]], h)
        return h @ self.readout.T


def measure_full() -> list[Row]:
    """Time a full model with a trained embedding against the paper's equation."""
    symbols, hidden = 5, 256
    ours = StateTracker(
        symbols, symbols, hidden, "full", embedding=hidden, readout="plain", generator=torch.Generator().manual_seed(0)
    )
    theirs = EinsumTracker(ours)
    tokens, lengths, _ = _batch(symbols)
    require_close("step-full", ours.at_end(tokens, lengths), theirs.at_end(tokens, lengths))
    times = best_times({"ours": step(ours, symbols), "theirs": step(theirs, symbols)}, repeats=3, most_s=30)
    case = f"full, B {BATCH}, T {TIME}, H = D = {hidden}, V {symbols}, W and embedding trained"
    return [Row(case, "torch.einsum per step", times["ours"], times["theirs"], target=25.0)]


def measure_table() -> list[Row]:
    """Time a full model of one-hot tokens against an nn.LSTM of the same width."""
    rows = []
    for hidden, symbols, target in ((256, 5, 5.0), (64, 5, 3.0), (256, 50, 2.0), (64, 50, 2.0)):
        ours = _checked(symbols, hidden)
        calls = {"ours": step(ours, symbols), "lstm": step(LSTMTracker(symbols, hidden), symbols)}
        # many turns: on a shared machine a quiet moment for both is rare
        times = best_times(calls, repeats=40, most_s=15)
        case = f"full, B {BATCH}, T {TIME}, H {hidden}, V {symbols}, one-hot tokens"
        rows.append(Row(case, f"nn.LSTM({hidden})", times["ours"], times["lstm"], target))
    return rows


def measure_limit() -> list[Row]:
    """Time the same against nothing but the multiplications, as this machine's own matrix product does them."""
    hidden, symbols = 256, 5
    ours = _checked(symbols, hidden)
    rows, matrix = torch.randn(BATCH, hidden), torch.randn(hidden, hidden)
    left, right = torch.randn(hidden, BATCH), torch.randn(BATCH, hidden)

    def products() -> None:
        for _ in range(TIME):
            torch.mm(rows, matrix)
            torch.mm(rows, matrix.T)
            torch.mm(left, right)

    times = best_times({"ours": step(ours, symbols), "limit": products})
    case = f"full, B {BATCH}, T {TIME}, H {hidden}, V {symbols}, one-hot tokens"
    return [Row(case, f"{3 * TIME} products of {BATCH} x {hidden} x {hidden}", times["ours"], times["limit"], 0.5)]


def step(model: Answering, symbols: int) -> Callable[[], None]:
    """Return a training step on random sequences."""
    return training_step(model, *_batch(symbols))


def training_step(model: Answering, tokens: Tensor, lengths: Tensor, answers: Tensor) -> Callable[[], None]:
    """Return a training step: forward, backward and Adam, the same Adam for all."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    # Adam moves ensembles, of which this has one member
    moved = [weight.detach().unsqueeze(0) for weight in weights]
    moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in moved]
    counts = itertools.count(1)

    def one() -> None:
        for weight in weights:
            weight.grad = None
        nn.functional.cross_entropy(model.at_end(tokens, lengths), answers).backward()
        count = float(next(counts))
        with torch.no_grad():
            for weight, parameter, means in zip(weights, moved, moments, strict=True):
                assert weight.grad is not None
                adam_step(parameter, weight.grad.unsqueeze(0), means, count, [_RATE], [0.0])

    return one


def _batch(symbols: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, symbols, (BATCH, TIME), generator=generator)
    answers = torch.randint(0, symbols, (BATCH,), generator=generator)
    return tokens, torch.full((BATCH,), TIME), answers


def _checked(symbols: int, hidden: int) -> StateTracker:
    """Build our model, and compare its answers and its gradient with the reference."""
    generator = torch.Generator().manual_seed(0)
    model = StateTracker(symbols, symbols, hidden, "full", readout="normalised", generator=generator)
    tokens, lengths, answers = _batch(symbols)
    one_hot = nn.functional.one_hot(tokens, symbols).float()
    states, _ = unroll(model.transition, one_hot, model.initial_state.expand(BATCH, -1))
    slow = nn.functional.normalize(states[:, -1], dim=-1) @ model.readout.T
    fast = model.at_end(tokens, lengths)
    require_close("step-table", fast, slow)
    weights = next(model.transition.parameters())
    gradients = [torch.autograd.grad(nn.functional.cross_entropy(out, answers), weights)[0] for out in (fast, slow)]
    require_close("step-table", *gradients)
    return model
