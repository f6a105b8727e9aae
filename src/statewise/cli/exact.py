"""`statewise certify`, `extract` and `snap`: what a network provably is, and how it is put right."""

from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import NetworkError, RunError, shorten
from statewise.files import write_whole
from statewise.machines import Machine, align, minimise, write_machine
from statewise.machines import machine as build

_LONGEST_SHOWN = 200
# below this share of equal answers, what was read out is not what the network is
_LEAST_AGREEMENT = 0.9
_MODES = ("exact", "project")


def certify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a network.")],
    machine: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="What it should be; else its own task.")
    ] = None,
    shortest: Annotated[int | None, typer.Option(min=0, help="Judge words of at least so many symbols.")] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to search for a wrong word.")] = 20.0,
    out: Annotated[Path | None, typer.Option(help="Write the verdict to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Prove that a network equals a machine on all words, or find a word on which it does not."""
    target = None if machine is None else build(machine)

    from statewise.cli.saved import load_run
    from statewise.theory.certify.verdict import certify as judge

    saved = load_run(run)
    network = saved.network
    target = _aligned(saved, target)
    least = saved.shortest if shortest is None else shortest
    verdict = judge(network, target, least, seconds)
    result = written_verdict(verdict, target) | {"run": str(run), "machine": target.name}
    if out is not None:
        import json as json_module

        write_whole(out, json_module.dumps(result, indent=1) + "\n")
        result["out"] = str(out)
    lines = verdict_lines(verdict, target)
    show(result, json, lines if out is None else [*lines, ("out", str(out))])
    if verdict.status == "refuted":
        raise typer.Exit(1)


def extract(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a network.")],
    out: Annotated[Path, typer.Option(help="Write the machine to this .json or .dot file.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read the machine out of a network, without knowing its task."""
    from statewise.cli.saved import load_run

    saved = load_run(run)
    found = extract_saved(saved)
    write_machine(found.machine, out)
    same = found.machine == saved.machine
    result: dict[str, Any] = {
        "states": found.machine.states,
        "faithful": found.faithful,
        "reason": found.reason,
        "agreement": found.agreement,
        "method": found.method,
        "equals_task": same,
        "out": str(out),
    }
    lines = [
        ("machine", f"{found.machine.states} states, {found.machine.symbols} symbols, read out by {found.method}"),
        ("faithful", f"{'yes' if found.faithful else 'no'}: {found.reason}"),
        ("its task", f"{'the same machine as' if same else 'another machine than'} {shorten(saved.machine.name)}"),
        ("out", str(out)),
    ]
    show(result, json, lines)


def snap(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a trained network.")],
    out: Annotated[Path, typer.Option(help="The directory of the repaired network.")],
    machine: Annotated[str | None, typer.Option(metavar="MACHINE", help="What it should be; else what it is.")] = None,
    mode: Annotated[str, typer.Option(help="exact (one-hot states) or project (its own hidden space).")] = "exact",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Repair a trained network by its machine, and prove the result."""
    if mode not in _MODES:
        raise RunError(f'mode is "{shorten(mode)}"; expected exact or project; correct it')
    target = None if machine is None else build(machine)

    from statewise.cli.saved import check_free, load_run, save_network
    from statewise.theory.certify.verdict import certify as judge
    from statewise.theory.compile import one_hot
    from statewise.theory.network import network_of
    from statewise.theory.snap import prototypes, snap_exact, snap_project

    check_free(out)
    saved = load_run(run)
    network = saved.network
    if target is None:
        read = extract_saved(saved)
        if read.agreement < _LEAST_AGREEMENT:
            raise NetworkError(
                f"the network is no machine that could be read out: {read.reason}; train it further, or give --machine"
            )
        target, source = read.machine.replace(name=saved.machine.name), f"read out of it: {read.reason}"
    else:
        target, source = _aligned(saved, target), "as given"
    same = target == saved.machine
    try:
        found = prototypes(network, target, saved.shortest, saved.options["longest"])
        made = snap_exact(network, found) if mode == "exact" else snap_project(network, found)
    except NetworkError:
        if mode == "project":
            raise
        made = one_hot(minimise(target))
    verdict = judge(network_of(made.model), target, seconds=0.0)
    result = written_verdict(verdict, target) | {
        "run": str(out),
        "mode": mode,
        "hidden": len(made.model.initial_state),
        "states": target.states,
        "equals_task": same,
    }
    save_network(out, made.model, made.level, target, {"status": "snapped", "how": made.how, "verdict": result})
    task = "its task" if same else f"NOT its task, {shorten(saved.machine.name)}"
    lines = [
        ("machine", f"{target.states} states, {task}; {source}"),
        ("network", f"{made.level}, hidden size {result['hidden']}: {made.how}"),
        *verdict_lines(verdict, target),
    ]
    show(result, json, [*lines, ("run", str(out))])
    if verdict.status in ("refuted", "unknown"):
        raise typer.Exit(1)


def _aligned(saved: Any, target: Machine | None) -> Machine:
    """Gives the machine to judge by, its symbols and outputs numbered as the network numbers them."""
    return saved.machine if target is None else align(target, saved.machine.alphabet, saved.machine.output_names)


def extract_saved(saved: Any) -> Any:
    """Reads the machine out of a saved network, over the lengths that it was trained on."""
    from statewise.theory.extraction import extract as read_out

    names = (saved.machine.alphabet, saved.machine.output_names)
    return read_out(saved.network, saved.shortest, saved.options["longest"], 0, *names)


def class_name(machine: Machine, output: int) -> str:
    """Names a class; a readout may have more of them than the machine."""
    return machine.output_names[output] if output < machine.classes else f"class {output}"


def written_verdict(verdict: Any, machine: Machine) -> dict[str, Any]:
    """Gives a verdict as plain values, the counterexample in a form that can be replayed."""

    def named(word: tuple[int, ...]) -> list[str]:
        return [machine.alphabet[a] for a in word]

    found = verdict.counterexample
    shown = None
    if found is not None:
        word = found.word
        shown = {
            "word": named(word.symbols()) if len(word) <= 100_000 else None,
            "prefix": named(word.prefix),
            "loop": named(word.loop),
            "times": word.times,
            "suffix": named(word.suffix),
            "length": len(word),
            "right": class_name(machine, found.replayed.right),
            "given": class_name(machine, found.replayed.given),
            "arithmetic": found.replayed.arithmetic,
        }
    return {
        "status": verdict.status,
        "method": verdict.method,
        "horizon": verdict.horizon,
        "counterexample": shown,
        "reason": verdict.reason,
        "shortest": verdict.shortest,
    }


def verdict_lines(verdict: Any, machine: Machine) -> list[tuple[str, str]]:
    """Gives a verdict for a reader."""
    from_length = f"all words of at least {verdict.shortest} symbols" if verdict.shortest else "all words"
    if verdict.status == "proven":
        return [("proven", f"equal on {from_length} ({verdict.method}: {verdict.reason})")]
    lines = []
    if verdict.counterexample is not None:
        found = verdict.counterexample
        word = shorten(found.word.written(machine), _LONGEST_SHOWN) or "the empty word"
        right, given = (class_name(machine, c) for c in (found.replayed.right, found.replayed.given))
        lines = [
            ("refuted", f"{word} ({len(found.word):,} symbols)"),
            ("answers", f"machine {shorten(right)}, network {shorten(given)}; {verdict.reason}"),
        ]
    elif verdict.status == "unknown":
        lines = [("unknown", verdict.reason)]
    if verdict.horizon is not None:
        lines.append(("horizon", f"all words of {verdict.shortest} to {verdict.horizon:,} symbols are right (proven)"))
        if verdict.counterexample is None:
            lines.append(("beyond", verdict.reason))
    return lines
