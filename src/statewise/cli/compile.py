"""`statewise compile`: a machine into weights."""

from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import RunError
from statewise.machines import Machine
from statewise.machines import machine as build

_DTYPES = ("float32", "float64")


def compile_command(
    expression: Annotated[
        str, typer.Argument(metavar="MACHINE", help="A name such as parity, or a .json or .dot file.")
    ],
    out: Annotated[Path, typer.Option(help="The directory of the network.")],
    level: Annotated[str, typer.Option(help="auto, full, cp, block(size), rotation, diagonal or positive.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    run: Annotated[int, typer.Option(min=0, help="Also run a random word of so many symbols.")] = 1_000_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a machine as the weights of a network, and verify them."""
    if dtype not in _DTYPES:
        raise RunError(f'dtype is "{dtype}"; expected float32 or float64; correct it')
    built = build(expression)

    import torch

    from statewise.cli.saved import check_free, save_network
    from statewise.theory.certify.verdict import certify
    from statewise.theory.compile import compile_machine
    from statewise.theory.network import network_of

    torch.set_num_threads(1)
    check_free(out)
    compiled = compile_machine(built, level, getattr(torch, dtype))
    verdict = certify(network_of(compiled.model), built, seconds=0.0)
    length = run if verdict.horizon is None else min(run, verdict.horizon)
    right = _right_along(compiled.model, built, length) if length else None
    result: dict[str, Any] = {
        "level": compiled.level,
        "hidden": len(compiled.model.initial_state),
        "verified": verdict.status == "proven" and right is not False,
        "exact": compiled.exact,
        "status": verdict.status,
        "method": verdict.method,
        "horizon": verdict.horizon,
        "how": compiled.how,
        "parameters": sum(p.numel() for p in compiled.model.parameters()),
        "ran": length,
        "ran_right": right,
        "run": str(out),
    }
    if verdict.status in ("refuted", "unknown") or right is False:
        raise RunError(f"the weights at level {compiled.level} did not pass their own check; use --level full")
    save_network(out, compiled.model, compiled.level, built, {"status": "compiled"} | result)
    claim = "all lengths" if verdict.status == "proven" else f"words of up to {verdict.horizon:,} symbols"
    lines = [
        ("machine", f"{built.name}: {built.states} states, {built.symbols} symbols"),
        ("network", f"{compiled.level}, hidden size {result['hidden']}, {result['parameters']:,} numbers"),
        ("how", compiled.how),
        ("proven", f"right on {claim} ({verdict.method}: {verdict.reason})"),
    ]
    if length:
        lines.append(("ran", f"one word of {length:,} symbols in {dtype}, right after each"))
    show(result, json, [*lines, ("run", str(out))])


def _right_along(model: Any, machine: Machine, length: int) -> bool:
    """Runs one random word in floats, and compares the answer every thousand symbols."""
    import numpy as np
    import torch

    from statewise.randomness import stream

    word = stream(0, "compiled").integers(0, machine.symbols, length)
    right = machine.outputs[machine.track(word[None])[0]]
    state = model.init_state(1)
    with torch.no_grad():
        for begin in range(0, length, 1_000):
            piece = word[begin : begin + 1_000]
            logits, state = model.advance(torch.from_numpy(piece)[None], state)
            if int(np.argmax(logits[0].numpy())) != int(right[begin + len(piece) - 1]):
                return False
    return True
