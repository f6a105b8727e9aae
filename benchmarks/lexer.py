"""The lexer state of Python's standard library: every architecture on windows of 64 characters, tested on whole files.

The sequences are those of examples/python_lexer.py. Every fifth module is set aside for the test; of these, files of at
most 20,000 characters are read whole. All models train on equal terms, as `compare` has them; the records of its store
are exported to results/lexer.jsonl.gz. A store that is given is gone on with. What a machine that is written by hand
answers on the same files is in results/lexer-machine.json, and the processor time of a training step of every model in
results/lexer-steps.json; with the word `facts` these alone are made.
Usage: python benchmarks/lexer.py [STORE | facts]
"""

import contextlib
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import statewise as sw
from statewise.machines import Machine, minimise

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import python_lexer  # noqa: E402

RESULTS, MACHINE, TIMES = (ROOT / "results" / f"lexer{name}" for name in (".jsonl.gz", "-machine.json", "-steps.json"))
MODELS = [
    "full",
    "block(8)",
    "cp(64)",
    "rotation",
    "diagonal",
    "rnn",
    "lstm",
    "gru",
    "mamba",
    "transformer(2, positions=none)",
    "deltanet(1, negative=true)",
    "slstm",
    "slice(4)",
    "pd_ssm",
]
WINDOWS, HELD_OUT, LONGEST_FILE, STEPS, SEEDS = 20_000, 1_000, 20_000, 2_000, 3


def write_files(folder: Path) -> list[Path]:
    """Write the sequences for training, validation and test."""
    modules = python_lexer.standard_library()
    kept = [file for place, file in enumerate(modules) if place % 5]
    others = [file for file in modules[::5] if file.stat().st_size <= LONGEST_FILE]
    train, held_out = (python_lexer.draw_windows(kept, count, seed) for seed, count in enumerate((WINDOWS, HELD_OUT)))
    rows = {"train": train, "validation": held_out, "test": python_lexer.whole_files(others)}
    return [python_lexer.write_lines(folder / f"{name}.jsonl", written) for name, written in rows.items()]


def lexer_machine(alphabet: list[str]) -> Machine:
    """Return the lexer as a finite-state machine: in code, after each quotation mark, in strings, and after escapes."""
    moves: dict[str, dict[str, str]] = {"code": {"#": "comment"}, "comment": {"newline": "code", "": "comment"}}
    label = {"code": "code", "comment": "comment"}
    for quote in ("'", '"'):
        short, long = python_lexer.STRINGS[quote], python_lexer.STRINGS[3 * quote]
        moves["code"][quote] = f"{short} begun"
        body, triple = {"\\": f"{short} escape", "": short}, {"\\": f"{long} escape", "": long}
        made = {
            # one quotation mark, then none: the string has begun
            f"{short} begun": (short, body | {quote: f"{short} empty"}),
            short: (short, body | {quote: "code"}),
            f"{short} escape": ("escape", {"": short}),
            # two marks are an empty string, unless a third follows
            f"{short} empty": ("code", {quote: long}),
            long: (long, triple | {quote: f"{long} 1"}),
            f"{long} 1": (long, triple | {quote: f"{long} 2"}),
            f"{long} 2": (long, triple | {quote: "code"}),
            f"{long} escape": ("escape", {"": long}),
        }
        for state, (answer, following) in made.items():
            label[state], moves[state] = answer, following
    for quote in ("'", '"'):
        empty = f"{python_lexer.STRINGS[quote]} empty"
        # what follows an empty string is code
        moves[empty] = moves["code"] | moves[empty]
    states, labels = list(moves), sorted(set(label.values()))
    delta = [
        [states.index(moves[state].get(symbol, moves[state].get("", "code"))) for symbol in alphabet]
        for state in states
    ]
    outputs = np.array([labels.index(label[state]) for state in states])
    return Machine(np.array(delta), outputs=outputs, alphabet=alphabet, output_names=labels, name="Python's lexer")


def judge_machine() -> None:
    """Compare the machine with `tokenize` on every module, and write what it is and how often it is wrong."""
    read = python_lexer.whole_files(python_lexer.standard_library())
    machine = lexer_machine(sorted({symbol for row in read for symbol in row["word"]}))
    number = {symbol: place for place, symbol in enumerate(machine.alphabet)}
    wrong = 0
    for row in read:
        states = machine.track(np.array([[number[symbol] for symbol in row["word"]]]))[0]
        answers = [machine.output_names[output] for output in machine.outputs[states]]
        wrong += sum(answer != label for answer, label in zip(answers, row["labels"], strict=True))
    described, network = sw.describe(machine).to_dict(), sw.compile(machine, level="full")
    facts = {
        "python": platform.python_version(),
        "files": len(read),
        "characters": sum(len(row["word"]) for row in read),
        "wrong": wrong,
        "states": machine.states,
        "minimal_states": minimise(machine).states,
        "symbols": machine.symbols,
        "monoid": described["monoid"],
        "group": described["group"],
        "level": described["level"],
        "level_reason": described["level_reason"],
        "hidden": network.to_dict()["hidden"],
        "verified": network.to_dict()["verified"],
    }
    MACHINE.write_text(json.dumps(facts, indent=1) + "\n")
    print(facts)


def measure_steps(repeats: int = 6) -> None:
    """Take the processor time of a training step of every model, the least of several; other work does not count."""
    import torch

    from statewise.sweep.terms import SETTINGS, Terms
    from statewise.tasks import build_source
    from statewise.training.loss import objective

    torch.set_num_threads(1)
    taken = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        train, validation, test = write_files(Path())
        name = f'words("{train}", validation="{validation}", test="{test}")'
        source = build_source(name)
        for model in MODELS:
            options = Terms(STEPS, (10,), 1).options(name, model, SETTINGS[0], 0, kept=source)
            task = options.build_task(source)
            network = options.model_options.build(source.symbols, source.classes, 0, None)
            adam = torch.optim.Adam(network.parameters(), lr=options.lr)
            each = []
            for position in range(repeats):
                batch = task.batch(0, position, options.batch)
                began = time.process_time()
                adam.zero_grad()
                objective(network, batch, options.loss).backward()
                adam.step()
                each.append(time.process_time() - began)
            taken[model] = min(each)
    TIMES.write_text(json.dumps(taken, indent=1) + "\n")


def main(store: Path) -> None:
    """Compare all models, and export the records."""
    store.mkdir(parents=True, exist_ok=True)
    # records name their files: relative names are the same on every machine
    with contextlib.chdir(store):
        train, validation, test = write_files(Path())
        print(
            sw.compare(
                words=train,
                validation_words=validation,
                test_words=test,
                models=MODELS,
                seeds=SEEDS,
                steps=STEPS,
                store="runs",
            )
        )
        sw.runs("runs", out=RESULTS)


if __name__ == "__main__":
    judge_machine()
    measure_steps()
    if sys.argv[1:] == ["facts"]:
        sys.exit()
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
