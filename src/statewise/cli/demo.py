"""`statewise demo`: the shortest true story."""

import time
from pathlib import Path
from typing import Annotated

import typer

from statewise.cli.show import show

_MACHINE, _LENGTH, _WORDS, _SEED = "modular_addition(5)", 10_000, 16, 0


def demo(
    out: Annotated[Path | None, typer.Option(help="Also write the result to demo.json in this directory.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compile a machine into weights, and track it for 10,000 steps."""
    import json as encoder

    import numpy as np
    import torch

    from statewise.layer import BilinearRNN
    from statewise.machines import machine
    from statewise.machines.files import write_whole
    from statewise.theory.compile import compile_one_hot

    began = time.perf_counter()
    target = machine(_MACHINE)
    exact = compile_one_hot(target)
    rnn = BilinearRNN(target.symbols, target.states, transition="full")
    with torch.no_grad():
        rnn.layers[0].weight.copy_(exact.weight)  # pyright: ignore
        rnn.initial_state.copy_(exact.initial)
        words = np.random.default_rng(_SEED).integers(0, target.symbols, size=(_WORDS, _LENGTH))
        inputs = torch.nn.functional.one_hot(torch.from_numpy(words), target.symbols).float()
        hidden, _ = rnn(inputs)
        answers = (hidden @ exact.readout.T).argmax(dim=-1).numpy()
    correct = int((answers == target.outputs[target.track(words)]).sum())
    chance = 1 / target.classes
    accuracy = correct / words.size
    result = {
        "machine": target.name,
        "model": "full",
        "hidden": rnn.hidden_size,
        "length": _LENGTH,
        "answers": words.size,
        "correct": correct,
        "score_ood": (accuracy - chance) / (1 - chance),
        "seconds": round(time.perf_counter() - began, 3),
    }
    if out is not None:
        write_whole(out / "demo.json", encoder.dumps(result) + "\n")
    lines = [
        ("machine", f"{target.name}: {target.states} states, {target.symbols} symbols"),
        (
            "network",
            f"h_t = A(x_t) h_(t-1), full bilinear, hidden size {rnn.hidden_size}, compiled not trained",
        ),
        ("tracked", f"{_WORDS} random words of {_LENGTH:,} symbols"),
        ("correct", f"{correct:,} of {words.size:,} states; score {result['score_ood']:.2f}"),
        ("seconds", f"{result['seconds']}"),
    ]
    show(result, json, lines)
