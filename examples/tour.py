"""From a machine to a proof: train, evaluate, audit, read out, repair, compile, compare."""

import sys
import tempfile
from pathlib import Path

import statewise as sw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

m = sw.machine("modular_addition(5)")  # or a .dot, .json, regex, table
run = sw.train(m, "full", out=folder / "run1", steps=600)  # a Run: model, task, record, path
print(sw.evaluate(run, lengths=[10, 500, 10_000]))  # Scores: prints, .plot("s.png"), .to_dict()
print(sw.certify(run, seconds=2.0))  # refuted by a word, proven up to a horizon, or proven
fine = sw.polish(run, out=folder / "run2")  # the same network, solved to machine precision
print(fine)
exact = sw.snap(run, out=folder / "run3")  # its machine put into the weights
print(sw.certify(exact))  # proven at every length
assert sw.extract(run).machine == m
net = sw.compile("symmetric(5)")  # exact weights, no training
print(net)
table = sw.compare(tasks=[m, "symmetric(3)"], models=["full", "block(2)", "lstm"], seeds=1, steps=200)
print(table)
again = sw.load(folder / "run1")
assert again.record == run.record
