"""Real-valued inputs and text: bilinear layers in place of an LSTM, a GRU and a hybrid, with as many parameters.

Digits are the 8x8 images of scikit-learn, read row by row; text is the documentation topics of Python's standard
library, one character after the other. Each model tries the same rates with seed 0, keeps the one with the least
validation loss, and runs it with two more seeds. Every run is a line of results/drop-in.jsonl; runs that are there are
not repeated. docs/make_drop_in.py makes the page.
Usage: python benchmarks/drop_in.py [STEPS_OF_DIGITS STEPS_OF_TEXT]
"""

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from statewise import BilinearRNN

RECORDS = Path(__file__).parents[1] / "results" / "drop-in.jsonl"
RATES, SEEDS = (0.001, 0.003, 0.01), 3
BATCH = {"digits": 64, "text": 16}
WINDOW, SYMBOLS, EMBEDDED = 64, 64, 16
# parameters of the LSTM that the others are as large as, by task; wider than this no model becomes
LSTM_WIDTH, WIDEST = {"digits": 32, "text": 64}, 256


@dataclass(frozen=True)
class Layer:
    """A bilinear layer: its level, its additive term, and whether its states keep one size."""

    transition: str
    additive: str = "input"
    normalise: bool = True
    attention: bool = False


MODELS: dict[str, Layer | type[nn.LSTM] | type[nn.GRU]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "full": Layer("full", "none"),
    "full, additive": Layer("full"),
    "block(8), additive": Layer("block(8)"),
    "block(8), additive, not normalised": Layer("block(8)", normalise=False),
    "rotation": Layer("rotation", "none"),
    "rotation, additive": Layer("rotation"),
    "diagonal, additive": Layer("diagonal"),
    "block(8), additive, and attention": Layer("block(8)", attention=True),
}


class Network(nn.Module):
    """An embedding for text, the layer, attention behind it if asked for, and a linear readout."""

    def __init__(self, task: str, model: str, hidden: int) -> None:
        super().__init__()
        width, classes = (8, 10) if task == "digits" else (EMBEDDED, SYMBOLS)
        self.embedding = nn.Embedding(SYMBOLS, EMBEDDED) if task == "text" else nn.Identity()
        kind = MODELS[model]
        if isinstance(kind, Layer):
            self.layer = BilinearRNN(width, hidden, kind.transition, kind.additive, normalise=kind.normalise)
        else:
            self.layer = kind(width, hidden, batch_first=True)
        attends = isinstance(kind, Layer) and kind.attention
        self.attention = nn.MultiheadAttention(hidden, 1, batch_first=True) if attends else None
        self.readout = nn.Linear(hidden, classes)
        self.last = task == "digits"

    def forward(self, x: Tensor) -> Tensor:
        """Return logits: at the end of digits, after each character of text."""
        values = self.layer(self.embedding(x))[0]
        if self.attention is not None:
            later = torch.ones(values.shape[1], values.shape[1], dtype=torch.bool).triu(1)
            values = values + self.attention(values, values, values, attn_mask=later, need_weights=False)[0]
        return self.readout(values[:, -1] if self.last else values)


def count(network: nn.Module) -> int:
    """Return how many parameters there are."""
    return sum(parameter.numel() for parameter in network.parameters())


@cache
def width_of(task: str, model: str) -> int:
    """Return the multiple of 8 whose network is nearest in parameters to the LSTM."""
    if model == "lstm":
        return LSTM_WIDTH[task]
    target = count(Network(task, "lstm", LSTM_WIDTH[task]))
    return min(range(8, WIDEST + 1, 8), key=lambda hidden: abs(count(Network(task, model, hidden)) - target))


@cache
def digits() -> dict[str, tuple[Tensor, Tensor]]:
    """Return images [image, row, column] between 0 and 1 and their digits, in three parts drawn once."""
    from sklearn.datasets import load_digits

    found = load_digits()
    x = torch.tensor(found.images, dtype=torch.float32) / 16
    y = torch.tensor(found.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    parts = {"train": order[:1000], "validation": order[1000:1300], "test": order[1300:]}
    return {name: (x[rows], y[rows]) for name, rows in parts.items()}


@cache
def text() -> dict[str, Tensor]:
    """Return the characters of whole topics by number, in three parts; the rarest share one number."""
    from pydoc_data import topics

    everything = "".join(topics.topics.values())
    kept = sorted(set(everything), key=lambda char: (-everything.count(char), char))[: SYMBOLS - 1]
    number = {char: place for place, char in enumerate(kept)}
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for name, page in sorted(topics.topics.items()):
        place = hashlib.sha256(name.encode()).digest()[0] % 10
        part = "test" if place == 0 else "validation" if place == 1 else "train"
        parts[part] += [number.get(char, SYMBOLS - 1) for char in page]
    return {name: torch.tensor(values) for name, values in parts.items()}


def batches(task: str, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Draw training batches; the same for every model."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        if task == "digits":
            x, y = digits()["train"]
            rows = torch.randint(len(x), (BATCH[task],), generator=generator)
            yield x[rows], y[rows]
        else:
            line = text()["train"]
            starts = torch.randint(len(line) - WINDOW - 1, (BATCH[task], 1), generator=generator)
            windows = line[starts + torch.arange(WINDOW + 1)]
            yield windows[:, :-1], windows[:, 1:]


@torch.no_grad()
def measure(network: nn.Module, task: str, part: str) -> tuple[float, float]:
    """Return mean cross-entropy in nats and accuracy on a part."""
    if task == "digits":
        x, y = digits()[part]
    else:
        line = text()[part]
        windows = line[: (len(line) - 1) // WINDOW * WINDOW].view(-1, WINDOW)[:300]
        x, y = windows[:, :-1], windows[:, 1:]
    logits = network(x).flatten(0, -2)
    loss = nn.functional.cross_entropy(logits, y.flatten())
    return loss.item(), (logits.argmax(dim=-1) == y.flatten()).double().mean().item()


def train(task: str, model: str, rate: float, seed: int, steps: int) -> dict:
    """Train one network, and return its record."""
    torch.manual_seed(seed)
    network = Network(task, model, width_of(task, model))
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    began = time.process_time()
    for x, y in batches(task, steps, seed):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x).flatten(0, -2), y.flatten()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    seconds = time.process_time() - began
    network.eval()
    scores = {part: measure(network, task, part) for part in ("validation", "test")}
    return {
        **{"task": task, "model": model, "rate": rate, "seed": seed, "steps": steps, "batch": BATCH[task]},
        **{"hidden": width_of(task, model), "parameters": count(network), "seconds": round(seconds, 3)},
        **{
            f"{part}_{name}": value
            for part, pair in scores.items()
            for name, value in zip(("loss", "accuracy"), pair, strict=True)
        },
        "versions": {"torch": str(torch.__version__), "python": platform.python_version()},
    }


@dataclass(frozen=True)
class Key:
    """What a run is known by."""

    task: str
    model: str
    rate: float
    seed: int
    steps: int


def run_all(steps: dict[str, int], say: Callable[[str], None]) -> None:
    """Run what the store does not have yet."""
    done = {Key(*(record[name] for name in Key.__annotations__)): record for record in read_records()}

    def get(key: Key) -> dict:
        if key not in done:
            done[key] = train(**asdict(key))
            with RECORDS.open("a") as file:
                file.write(json.dumps(done[key]) + "\n")
            say(f"{key.task}, {key.model}: {done[key]['test_accuracy']:.3f} in {done[key]['seconds']:.1f} s")
        return done[key]

    for task in steps:
        for model in MODELS:
            tried = {rate: get(Key(task, model, rate, 0, steps[task])) for rate in RATES}
            best = min(tried, key=lambda rate: (tried[rate]["validation_loss"] != tried[rate]["validation_loss"],
                                                tried[rate]["validation_loss"]))  # fmt: skip
            for seed in range(1, SEEDS):
                get(Key(task, model, best, seed, steps[task]))


def read_records() -> list[dict]:
    """Return the records that are there."""
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = [int(value) for value in sys.argv[1:]] or [300, 300]
    run_all(dict(zip(("digits", "text"), given, strict=True)), lambda line: print(line, file=sys.stderr, flush=True))
