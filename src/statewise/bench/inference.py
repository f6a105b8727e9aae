"""How long does a trained full model take to read, one stream symbol by symbol, and many sequences at once?"""

from typing import Any

import torch
from torch import nn

from statewise.bench.steps import LSTMTracker
from statewise.bench.timing import Row, best_times, require_close
from statewise.machines import machine
from statewise.models.tracker import StateTracker
from statewise.recurrence import unroll_normalised
from statewise.tasks import Task
from statewise.training.evaluation import evaluate_model

HIDDEN, SYMBOLS, SEQUENCES, LENGTH = 256, 10, 256, 500


def measure() -> list[Row]:
    """Time a step of one stream, the states of many sequences, and a whole evaluation."""
    ours = StateTracker(SYMBOLS, SYMBOLS, HIDDEN, "full", generator=torch.Generator().manual_seed(0)).eval()
    theirs = LSTMTracker(SYMBOLS, HIDDEN).eval()
    tokens = torch.randint(0, SYMBOLS, (SEQUENCES, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        _check(ours, tokens[:8, :40])
        token, state = tokens[:1, 0], ours.init_state(1)
        zeros = torch.zeros(1, 1, HIDDEN)

        def stream_theirs() -> Any:
            output, _ = theirs.lstm(theirs.embedding(token.unsqueeze(1)), (zeros, zeros))
            return theirs.readout(output[:, -1])

        one = best_times({"ours": lambda: ours.step(token, state), "lstm": stream_theirs})
        start = ours.init_state(SEQUENCES)
        lengths = torch.full((SEQUENCES,), LENGTH)
        many = best_times(
            {"ours": lambda: ours.advance(tokens, start), "lstm": lambda: theirs.at_end(tokens, lengths)}, repeats=3
        )
    task = Task(machine(f"modular_addition({SYMBOLS})"))
    whole = best_times({"ours": lambda: evaluate_model(ours, task, [LENGTH], 1_000, 0)}, repeats=3)
    sizes = f"full, H {HIDDEN}, V {SYMBOLS}"
    return [
        Row(f"{sizes}, B 1, one symbol", "nn.LSTM", one["ours"], one["lstm"], 1.0),
        Row(f"{sizes}, B {SEQUENCES}, T {LENGTH}", "nn.LSTM", many["ours"], many["lstm"], 5.0),
        Row(f"{sizes}, evaluation of 1,000 sequences of {LENGTH}", "one second", whole["ours"], 1.0, 1.0),
    ]


def _check(model: StateTracker, tokens: torch.Tensor) -> None:
    one_hot = nn.functional.one_hot(tokens, SYMBOLS).float()
    h0 = model.initial_state.expand(len(tokens), -1)
    _, (last, _) = unroll_normalised(model.transition, one_hot, h0)
    require_close("inference", model.advance(tokens, model.init_state(len(tokens)))[0], last @ model.readout.T)
