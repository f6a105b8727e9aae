"""How long does a training step over tokens take: forward, backward and Adam, against an einsum and an nn.LSTM?"""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from statewise.bench.timing import Row, best_times, require_close
from statewise.models.tracker import StateTracker
from statewise.recurrence import unroll
from statewise.training.adam import adam_step
from statewise.training.loss import answer_loss
from statewise.training.plans import Loss
from statewise.transitions import Full

BATCH, TIME = 64, 10
# hidden size, symbols, and how many times an nn.LSTM's speed is aimed at
SIZES = ((256, 5, 5.0), (64, 5, 3.0), (256, 50, 2.0), (64, 50, 2.0))
# squared error is trained with this weight decay, and is to be no slower than cross-entropy without, up to noise
DECAY, NO_SLOWER = 0.1, 0.95
_SQUARED, _CROSS_ENTROPY = f"squared error, weight decay {DECAY}", "ours, cross-entropy"
_RATE, _TURN_S = 1e-6, 0.003


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
    times = best_times({"ours": step(ours, symbols), "theirs": step(theirs, symbols)}, repeats=3, most_s=30.0)
    case = f"full, B {BATCH}, T {TIME}, H = D = {hidden}, V {symbols}, W and embedding trained"
    return [Row(case, "torch.einsum per step", times["ours"], times["theirs"], target=25.0)]


def measure_table(sizes: Sequence[tuple[int, int, float]] = SIZES, repeats: int = 600) -> list[Row]:
    """Time a full model of one-hot tokens against an nn.LSTM of the same width, and squared error beside it."""
    rows = []
    for hidden, symbols, target in sizes:
        calls = _two_losses("step-table", symbols, hidden)
        calls["lstm"] = step(LSTMTracker(symbols, hidden), symbols)
        # many short turns: on a shared machine a quiet moment for all is rare
        times = best_times(calls, repeats=repeats, least_s=_TURN_S, most_s=15.0)
        case = f"full, B {BATCH}, T {TIME}, H {hidden}, V {symbols}, one-hot tokens"
        rows.append(Row(case, f"nn.LSTM({hidden})", times["ours"], times["lstm"], target))
        rows.append(Row(f"{case}, {_SQUARED}", _CROSS_ENTROPY, times["squared"], times["ours"], NO_SLOWER))
    return rows


def measure_limit(hidden: int = 256, symbols: int = 5, repeats: int = 600) -> list[Row]:
    """Time the same against nothing but the multiplications, as this machine's own matrix product does them."""
    rows, matrix = torch.randn(BATCH, hidden), torch.randn(hidden, hidden)
    left, right = torch.randn(hidden, BATCH), torch.randn(BATCH, hidden)

    def products() -> None:
        for _ in range(TIME):
            torch.mm(rows, matrix)
            torch.mm(rows, matrix.T)
            torch.mm(left, right)

    times = best_times(_two_losses("limit", symbols, hidden) | {"limit": products}, repeats=repeats, least_s=_TURN_S)
    case = f"full, B {BATCH}, T {TIME}, H {hidden}, V {symbols}, one-hot tokens"
    limit = f"{3 * TIME} products of {BATCH} x {hidden} x {hidden}"
    return [
        Row(case, limit, times["ours"], times["limit"], 0.5),
        Row(f"{case}, {_SQUARED}", _CROSS_ENTROPY, times["squared"], times["ours"], NO_SLOWER),
    ]


def _two_losses(what: str, symbols: int, hidden: int) -> dict[str, Callable[[], None]]:
    """Return a checked step of cross-entropy without decay, and one of squared error with it."""
    return {
        "ours": _checked_step(what, symbols, hidden, "cross-entropy", 0.0),
        "squared": _checked_step(what, symbols, hidden, "squared", DECAY),
    }


def step(model: Answering, symbols: int) -> Callable[[], None]:
    """Return a training step on random sequences."""
    return training_step(model, *_batch(symbols))


def training_step(
    model: Answering,
    tokens: Tensor,
    lengths: Tensor,
    answers: Tensor,
    loss: Loss = "cross-entropy",
    decay: float = 0.0,
    rate: float = _RATE,
) -> Callable[[], None]:
    """Return a training step: forward, backward and AdamW, the same AdamW for all."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    # AdamW moves ensembles, of which this has one member
    moved = [weight.detach().unsqueeze(0) for weight in weights]
    moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in moved]
    counts = itertools.count(1)

    def one() -> None:
        for weight in weights:
            weight.grad = None
        answer_loss(model.at_end(tokens, lengths), answers, loss).backward()
        count = float(next(counts))
        with torch.no_grad():
            for weight, parameter, means in zip(weights, moved, moments, strict=True):
                assert weight.grad is not None
                adam_step(parameter, weight.grad.unsqueeze(0), means, count, [rate], [decay])

    return one


def plain_loss(logits: Tensor, answers: Tensor, loss: Loss) -> Tensor:
    """Compute the loss of answers as torch has it: the reference."""
    if loss == "cross-entropy":
        return nn.functional.cross_entropy(logits, answers)
    one_hot = nn.functional.one_hot(answers, logits.shape[1]).to(logits.dtype)
    return nn.functional.mse_loss(logits, one_hot, reduction="sum") / len(logits)


def _batch(symbols: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, symbols, (BATCH, TIME), generator=generator)
    answers = torch.randint(0, symbols, (BATCH,), generator=generator)
    return tokens, torch.full((BATCH,), TIME), answers


def _checked_step(what: str, symbols: int, hidden: int, loss: Loss, decay: float) -> Callable[[], None]:
    """Build our model, compare answers, loss, gradients and AdamW with plain torch, and return its training step."""
    generator = torch.Generator().manual_seed(0)
    model = StateTracker(symbols, symbols, hidden, "full", readout="normalised", generator=generator)
    tokens, lengths, answers = _batch(symbols)
    one_hot = nn.functional.one_hot(tokens, symbols).float()
    states, _ = unroll(model.transition, one_hot, model.initial_state.expand(BATCH, -1))
    slow = nn.functional.normalize(states[:, -1], dim=-1) @ model.readout.T
    fast = model.at_end(tokens, lengths)
    require_close(what, fast, slow)
    losses = answer_loss(fast, answers, loss), plain_loss(slow, answers, loss)
    require_close(what, *losses)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for found, expected in zip(*(torch.autograd.grad(value, weights) for value in losses), strict=True):
        require_close(what, found, expected)
    _check_adam(what, model, (tokens, lengths, answers), loss, decay)
    return training_step(model, tokens, lengths, answers, loss, decay)


def _check_adam(
    what: str, model: StateTracker, batch: tuple[Tensor, Tensor, Tensor], loss: Loss, decay: float, rate: float = 0.1
) -> None:
    """Take one step with a copy at a rate at which decay can be seen, and compare its moves with torch's AdamW."""
    ours = copy.deepcopy(model)
    training_step(ours, *batch, loss, decay, rate)()
    theirs = copy.deepcopy(model)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        other.grad = mine.grad
    torch.optim.AdamW(theirs.parameters(), lr=rate, weight_decay=decay).step()
    for before, mine, other in zip(model.parameters(), ours.parameters(), theirs.parameters(), strict=True):
        require_close(what, mine - before, other - before)
