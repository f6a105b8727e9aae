"""How closely are trained networks known: proven up to which length, and wrong at which?

Networks are trained by the default recipe on 2 to 10 symbols, and certified as they are and polished. Beside the
horizon stands the one that all short words, and bounds without a burn-in, prove. Records are appended to
results/horizons.jsonl, and a network that stands there is not run again; the table of docs/theory/trained-networks.md
is written from all of them.
Usage: python benchmarks/horizons.py [NAME ...]
"""

import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import statewise as sw
from statewise.errors import StatewiseError
from statewise.machines import minimise
from statewise.report.paper_markdown import markdown
from statewise.runs import provenance
from statewise.tasks import legal_moves
from statewise.theory import network_of
from statewise.theory.certify import prove_horizon, search

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "horizons.jsonl", ROOT / "docs" / "theory" / "trained-networks.md"
BEGIN, END = "<!-- table -->", "<!-- end -->"
# hidden-state updates of a search, so that no record depends on the speed of a computer
WORK = 5_000_000
CASES = {
    "full, addition modulo 5": ("modular_addition(5)", "full"),
    "block(2), addition modulo 5": ("modular_addition(5)", "block(2)"),
    "rotation, addition modulo 5": ("modular_addition(5)", "rotation"),
    "full, random map of 5": ("random_machine(5, seed=1)", "full"),
    "cp(64), random permutation of 5": ("random_machine(5, seed=1, kind=permutation)", "cp(64)"),
    "full, flip-flop": ("flip_flop", "full"),
    "full, parity": ("parity", "full"),
    "cp(16), parity": ("parity", "cp(16)"),
    "diagonal, parity": ("parity", "diagonal"),
}


def judge(name: str) -> dict[str, Any]:
    """Train one network and return what is proved of it, trained and polished."""
    task, model = CASES[name]
    with tempfile.TemporaryDirectory() as directory:
        run = sw.train(task, model, out=Path(directory) / "trained")
        record: dict[str, Any] = {"name": name, "task": task, "model": model, "work": WORK}
        record["score_500"] = next(score.score for score in run.record.scores if score.length == 500)
        record["before"] = _without_burn_in(run)
        began = time.perf_counter()
        record["trained"] = _short(sw.certify(run, work=WORK))
        record["seconds"] = round(time.perf_counter() - began, 1)
        try:
            fine = sw.polish(run, out=Path(directory) / "polished")
            record["polished"] = _short(sw.certify(fine, work=WORK))
        except StatewiseError as error:
            record["polished"] = {"status": "failed", "reason": str(error)}
    return record | {"provenance": asdict(provenance())}


def _without_burn_in(run: Any) -> int | None:
    """Return the horizon of all short words, and of errors that are bounded from the first state on."""
    network, machine = network_of(run.model), minimise(run.machine)
    legal = legal_moves(machine)
    near = prove_horizon(network, machine, legal=legal)
    searched = search(network, machine, run.shortest, work=WORK, legal=legal)
    return max((n for n in (searched.proven, None if near is None else near.length) if n is not None), default=None)


def _short(found: Any) -> dict[str, Any]:
    shown = found.to_dict()
    wrong = shown["counterexample"]
    kept = {key: shown[key] for key in ("status", "method", "horizon", "reembed", "shortest")}
    return kept | {"wrong": None if wrong is None else wrong["length"]}


def table(records: list[dict[str, Any]]) -> str:
    """Write the records as a table."""
    head = ["network", "score at 500", "proven before", "proven", "wrong at", "period", "polished: proven", "wrong at"]
    rows = []
    for record in sorted(records, key=lambda record: list(CASES).index(record["name"])):
        trained, polished = record["trained"], record["polished"]
        rows.append(
            [
                record["name"],
                f"{record['score_500']:.2f}",
                _number(record["before"]),
                *_sandwich(trained),
                _number(trained["reembed"]),
                *_sandwich(polished),
            ]
        )
    return markdown(head, rows)


def _sandwich(verdict: dict[str, Any]) -> tuple[str, str]:
    if verdict["status"] == "proven":
        return f"all lengths ({verdict['method']})", "–"
    return _number(verdict.get("horizon")), _number(verdict.get("wrong"))


def _number(value: int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if value < 10**7 else f"{value:.1e}"


def main(names: list[str]) -> None:
    """Run what is missing, and write the table."""
    done = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for name in names or CASES:
        if name in {record["name"] for record in done}:
            continue
        record = judge(name)
        done.append(record)
        with RESULTS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(record["name"], record["before"], record["trained"], record["polished"], file=sys.stderr)
    text = PAGE.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table(done)}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
