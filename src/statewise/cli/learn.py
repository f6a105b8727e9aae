"""`statewise learn`: labelled words into a machine, and the machine into weights."""

from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import RunError, shorten
from statewise.files import reason_of

# undetermined arrows that the JSON object lists
_LISTED = 100


def learn_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled words: JSON lines, or CSV (word, label).")],
    out: Annotated[Path, typer.Option(help="The directory of the network.")],
    method: Annotated[str, typer.Option(help="auto, rpni, least-squares or hankel.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find a machine from labelled words, and write it as an exact network."""
    from statewise.theory.learning.learner import METHODS, learn
    from statewise.theory.learning.word_files import read_words

    if method not in METHODS:
        raise RunError(f'method is "{shorten(method)}"; expected {", ".join(METHODS)}; correct it')
    data = read_words(file)

    import torch

    from statewise.cli.saved import check_free, save_network
    from statewise.theory.certify.verdict import certify
    from statewise.theory.compile import compile_machine
    from statewise.theory.network import network_of

    torch.set_num_threads(1)
    try:
        check_free(out)
    except OSError as error:
        raise RunError(f'cannot write "{shorten(out)}": {reason_of(error)}; use another directory') from None
    learned = learn(data, method, name=shorten(file.stem))
    machine = learned.machine
    compiled = compile_machine(machine)
    verdict = certify(network_of(compiled.model), machine, seconds=0.0)
    if verdict.status != "proven":
        raise RunError(
            f"the network of the learned machine of {machine.states} states is not proven equal to it: "
            f"{verdict.reason}; this is a fault of ours, please report it"
        )
    result: dict[str, Any] = {
        "states": machine.states,
        "status": learned.status,
        "method": learned.method,
        "words": learned.words,
        "consistent": learned.consistent,
        "determined": learned.determined,
        "unique": learned.proven,
        "helpful_word": None if learned.helpful_word is None else list(learned.helpful_word),
        "undetermined": [[state, symbol] for state, symbol in learned.undetermined[:_LISTED]],
        "coverage": learned.coverage,
        "level": compiled.level,
        "hidden": len(compiled.model.initial_state),
        "verified": True,
        "reason": learned.reason,
        "run": str(out),
    }
    record = result | {"status": "learned", "learned": learned.status}
    save_network(out, compiled.model, compiled.level, machine, record)
    lines = [
        ("words", f"{learned.words:,}, of which {learned.consistent:,} fit"),
        ("machine", f"states {machine.states}, symbols {machine.symbols}, found by {learned.method}"),
        ("status", f"{learned.status}: {learned.reason}"),
        ("network", f"{compiled.level}, hidden size {result['hidden']}, {compiled.how}"),
        ("proven", f"the network is this machine at all lengths ({verdict.method}: {verdict.reason})"),
    ]
    if learned.helpful_word is not None:
        lines.append(("would help", f"the label of: {shorten(' '.join(learned.helpful_word)) or 'the empty word'}"))
    show(result, json, [*lines, ("run", str(out))])
