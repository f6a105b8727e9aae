"""The lexer state of Python's standard library: every architecture on windows of 64 characters, tested on whole files.

The sequences are those of examples/python_lexer.py. Every fifth module is set aside for the test; of these, files of at
most 20,000 characters are read whole. All models train on equal terms, as `compare` has them; the records of its store
are exported to results/lexer.jsonl.gz. A store that is given is gone on with.
Usage: python benchmarks/lexer.py [STORE]
"""

import sys
import tempfile
from pathlib import Path

import statewise as sw

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import python_lexer  # noqa: E402

RESULTS = ROOT / "results" / "lexer.jsonl.gz"
MODELS = ["full", "block(8)", "diagonal", "rnn", "lstm", "gru", "mamba", "transformer", "deltanet(1, negative=true)"]
WINDOWS, HELD_OUT, LONGEST_FILE, STEPS, SEEDS = 20_000, 1_000, 20_000, 1_500, 3


def write_files(folder: Path) -> list[Path]:
    """Write the sequences for training, validation and test."""
    modules = python_lexer.standard_library()
    kept = [file for place, file in enumerate(modules) if place % 5]
    others = [file for file in modules[::5] if file.stat().st_size <= LONGEST_FILE]
    train, held_out = (python_lexer.draw_windows(kept, count, seed) for seed, count in enumerate((WINDOWS, HELD_OUT)))
    rows = {"train": train, "validation": held_out, "test": python_lexer.whole_files(others)}
    return [python_lexer.write_lines(folder / f"{name}.jsonl", written) for name, written in rows.items()]


def main(store: Path) -> None:
    """Compare all models, and export the records."""
    store.mkdir(parents=True, exist_ok=True)
    train, validation, test = write_files(store)
    table = sw.compare(
        words=train,
        validation_words=validation,
        test_words=test,
        models=MODELS,
        seeds=SEEDS,
        steps=STEPS,
        store=store / "runs",
    )
    print(table)
    sw.runs(store / "runs", out=RESULTS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
