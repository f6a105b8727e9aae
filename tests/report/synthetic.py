"""Records that were never run, as a store of the paper's grids holds them, and weights that track by construction."""

import json
import math

import numpy as np
import torch
from safetensors.numpy import save

from statewise.machines import machine
from statewise.papers import read_paper
from statewise.report.entries import subject_of
from statewise.runs import build_untrained, parse_record
from statewise.store import Store

TABLES = ("table-addition", "table-machine", "table-arithmetic", "losses")
FIGURES = ("figure2", "figure3", "figure4")
# how far each model goes: the largest m that it tracks on sums, random machines and arithmetic
REACH = {"full": (50, 50, 25), "cp": (25, 10, 10), "block": (50, 2, 2), "rotation": (50, 2, 0), "diagonal": (2, 2, 0)}
REACH |= {"lstm": (10, 5, 5), "rnn": (5, 2, 2)}
NAMES = ("modular_addition", "random_machine", "modular_arithmetic")


def record_of(options, number=0, **changed):
    """A plausible record of a run, the same for the same options, with some of it changed."""
    return parse_record(json.dumps(written_record(options, number) | changed))


def written_record(options, number=0):
    """The record as JSON has it."""
    random = np.random.default_rng(int(options.key()[:12], 16))
    level, size = options.model.split("(")[0], subject_of(options.task).size or 2
    place = next((i for i, name in enumerate(NAMES) if options.task.startswith(name)), 0)
    reached = REACH.get(level, (0, 0, 0))[place]
    skill = 1.0 if size <= reached else max(0.0, random.normal(0.05, 0.05))
    letter = options.recipe == "stated" and (options.readout, options.loss) == ("plain", "cross-entropy")
    skill *= random.choice([1.0, 0.6, 0.1]) if letter and level not in ("lstm", "rnn") else 1.0
    skill *= 1.0 if options.additive == "none" else 0.3
    skill *= 1.0 if options.samples is None else min(1.0, options.samples / 2048)
    skill, status = float(skill), "diverged" if random.random() < 0.02 else "done"
    lengths, steps = options.test_lengths, options.steps
    scores = [
        min(1.0, max(-0.25, skill * (1 - 0.12 * max(0.0, math.log10(n / 500)) * random.random()))) for n in lengths
    ]
    history = [
        {
            "step": step,
            "loss": float(math.log(size) * math.exp(-4 * skill * step / steps) * random.uniform(0.7, 1.3)),
            "scores": [min(1.0, 2 * skill * step / steps), min(1.0, skill * step / steps)],
            "seconds": step / 100,
            "validation": None,
        }
        for step in range(options.every, steps + 1, options.every)
    ]
    done = status == "done"
    polished = {"polished": _polished(options, skill, size)} if done and options.polish else {}
    return polished | {
        "key": options.key(),
        "status": status,
        "config": options.to_dict(),
        "steps": steps,
        "seconds": round(steps / 97, 2),
        "tokens_per_second": 50_000,
        "loss": history[-1]["loss"] if done else None,
        "parameters": options.hidden**2 * size,
        "scores": [_score(n, s, size) for n, s in zip(lengths, scores, strict=True)] if done else [],
        "in_distribution": _score(10, min(1.0, skill + 0.2), size) if done else None,
        "validation": None,
        "history": history,
        "probe": [10, 500],
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "statewise": "0.1.0"},
        "commit": ("3697d2f" if number % 3 else "59aa59b") + "0" * 33,
        "finished": 1_790_000_000 + 40 * number,
    }


def failed_record(options, reason):
    """The record of a run that could not be run."""
    written = {"key": options.key(), "status": "failed", "config": options.to_dict(), "reason": reason}
    return parse_record(json.dumps(written))


def _polished(options, skill, size):
    solved = skill > 0.9
    return {
        "status": "converged" if solved else "not converged",
        "objective": "values",
        "rank": size,
        "residual": 1e-29 if solved else 1e-3,
        "horizon": 1_600_000_000_000 if solved else None,
        "scores": [_score(n, 1.0 if solved else skill, size) for n in options.test_lengths],
        "rounds": 12,
        "seconds": 3.5,
    }


def _score(length, score, classes):
    accuracy = score * (1 - 1 / classes) + 1 / classes
    counted = {
        "length": length,
        "count": 500,
        "correct": round(500 * accuracy),
        "classes": classes,
        "majority": 1 / classes,
    }
    return counted | {"accuracy": accuracy, "score": score, "score_majority": score}


def rotation_weights(options, noise=0.0):
    """Rotations by whole harmonics, which track sums exactly."""
    size = subject_of(options.task).size
    random = np.random.default_rng(7)
    planes = options.hidden // 2
    harmonics = 1 + np.arange(planes) % (size // 2)
    angles = 2 * np.pi * np.outer(harmonics, np.arange(size)) / size
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * random.uniform(0.3, 1.5, (planes, 1, 1))
    weights = untrained_weights(options)
    weights["transition.weight"] = angles + random.normal(0, noise, angles.shape)
    weights["initial_state"] = np.tile([1.0, 0.0], planes)
    weights["readout"] = turned.transpose(1, 0, 2).reshape(size, -1)
    return saved(weights)


def full_weights(options):
    """One-hot states."""
    task = machine(options.task)
    weights = untrained_weights(options)
    matrices = np.zeros_like(weights["transition.matrices"])
    for a in range(task.symbols):
        matrices[a, task.delta[:, a], np.arange(task.states)] = 1
    weights["transition.matrices"] = matrices
    weights["initial_state"] = np.eye(options.hidden)[task.start]
    weights["readout"] = np.eye(options.hidden)[: task.classes]
    return saved(weights)


def untrained_weights(options):
    """The weights that a run begins with, by name."""
    model = build_untrained(options, machine(options.task))
    return {name: value.numpy() for name, value in model.state_dict().items()}


def saved(weights):
    """The file of weights that a store keeps."""
    return save({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()})


def fill(directory, names=(*TABLES, *FIGURES), preset="quick", every=1, further=()):
    """Write a store with every so many of the grids' runs, weights of a few, and further records."""
    torch.set_num_threads(1)
    paper = read_paper()
    planned = [run for name in names for run in paper.runs(name, preset)][::every]
    runs = {run.key(): run for run in planned}
    records = [record_of(run, number) for number, run in enumerate(runs.values())]
    weights = {}
    for key, run in runs.items():
        small = run.recipe == "statewise" and run.seed == 30 and run.additive == "none"
        sums = run.task in ("modular_addition(5)", "modular_addition(10)") and run.samples is None
        if small and run.model == "rotation" and sums:
            weights[key] = rotation_weights(run, 1e-4)
        if small and run.model == "full" and run.hidden == 64 and run.task.startswith("random_machine(5"):
            weights[key] = full_weights(run)
    with Store.open(directory, write=True) as store:
        store.add([*records, *further], weights)
    return records
