"""`statewise demo`: the whole story, from training to a proof."""

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.exact import extract_saved, verdict_lines, written_verdict
from statewise.cli.show import show
from statewise.training.options import resolve

_TASK, _MODEL, _STEPS, _LATE, _SEED = "modular_addition(5)", "full", 1_000, 40, 0
_WORDS, _LENGTHS = 200, (10, 500, 10_000)
_AUDIT_SECONDS = 12.0


def demo(
    out: Annotated[Path | None, typer.Option(help="Keep both networks, and a page about them, here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a network, find where it fails, read its machine out, repair it, and prove the result."""
    began = time.perf_counter()
    if out is not None:
        result, lines = _story(out)
        result["report"] = str(_report(out))
        lines.append(("report", result["report"]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            result, lines = _story(Path(folder))
        result["run"] = result["snapped"] = None
    result["seconds"] = round(time.perf_counter() - began, 1)
    show(result, json, [*lines, ("seconds", f"{result['seconds']}")])


def _report(folder: Path) -> Path:
    """Writes the page of a store that holds the trained run alone."""
    from statewise.cli.runs import read_run
    from statewise.report.page import write_page
    from statewise.store import Store
    from statewise.sweep.work import small_weights

    record, weights = read_run(folder / "run"), small_weights(folder / "run")
    with Store.open(folder / "store", write=True) as store:
        store.add([record], {} if weights is None else {record["key"]: weights})
        write_page(store, folder / "report.html", "quick")
    return folder / "report.html"


def _story(folder: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    import torch

    from statewise.cli.saved import load_run, save_network
    from statewise.cli.train import show_progress
    from statewise.runs.run import run
    from statewise.theory.certify.verdict import certify
    from statewise.theory.network import network_of
    from statewise.theory.snap import prototypes, snap_exact
    from statewise.training.assemble import build_plan, build_training

    torch.set_num_threads(1)
    given = {"task": _TASK, "model": _MODEL, "steps": _STEPS, "seed": _SEED, "late": _LATE}
    options = resolve(None, given | {"test_lengths": _LENGTHS, "words": _WORDS}).model_dump(mode="json")
    record = run(build_training(options), build_plan(options), options, folder / "run", show_progress)
    scores = {score["length"]: score["score"] for score in record["scores"]}
    saved = load_run(folder / "run")
    network = saved.network
    audit = certify(network, saved.machine, saved.shortest, _AUDIT_SECONDS)
    found = extract_saved(saved)
    same = found.machine == saved.machine
    made = snap_exact(network, prototypes(network, found.machine, saved.shortest, options["longest"]))
    proof = certify(network_of(made.model), saved.machine, seconds=0.0)
    certificate = written_verdict(proof, saved.machine)
    if not (folder / "snapped").exists():
        save_network(folder / "snapped", made.model, made.level, found.machine, {"status": "snapped"} | certificate)
    result: dict[str, Any] = {
        "task": _TASK,
        "model": _MODEL,
        "hidden": options["hidden"],
        "scores": {str(length): score for length, score in scores.items()},
        "score_ood": scores[500],
        "audit": written_verdict(audit, saved.machine),
        "extracted_states": found.machine.states,
        "extracted_is_task": same,
        "certificate": certificate,
        "report": None,
        "run": str(folder / "run"),
        "snapped": str(folder / "snapped"),
    }
    by_length = ", ".join(f"{score:.2f} at {length:,}" for length, score in scores.items())
    lines = [
        ("machine", f"{_TASK}: the sum of symbols mod 5, answered after the last symbol"),
        ("network", f"h_t = A(x_t) h_(t-1), full bilinear, hidden size {options['hidden']}"),
        ("trained", f"{_STEPS:,} steps on words of 2 to 10 symbols, the last ones on up to {_LATE}"),
        ("scores", f"{by_length} symbols (0 is chance, 1 is perfect)"),
        ("", "is it the machine, then? the audit of the trained weights:"),
        *verdict_lines(audit, saved.machine),
        ("", "its machine, read out without knowing the task, and put back into the weights:"),
        (
            "extracted",
            f"{found.machine.states} states, {'the task itself' if same else 'not the task'}: {found.reason}",
        ),
        ("snapped", f"hidden size {len(made.model.initial_state)}: {made.how}"),
        *verdict_lines(proof, saved.machine),
    ]
    return result, lines
