"""Records that were never run, as a store of the paper's grids holds them, and weights that track by construction."""

import math

import numpy as np
import torch
from safetensors.numpy import save

from statewise.machines import machine
from statewise.papers import read_paper
from statewise.report.entries import subject_of
from statewise.store import Store, key_of
from statewise.training.assemble import build_network

TABLES = ("table-addition", "table-machine", "table-arithmetic")
FIGURES = ("figure2", "figure3", "figure4")
# how far each model goes: the largest m that it tracks on sums, random machines and arithmetic
REACH = {"full": (50, 50, 25), "cp": (25, 10, 10), "block": (50, 2, 2), "rotation": (50, 2, 0), "diagonal": (2, 2, 0)}
REACH |= {"lstm": (10, 5, 5), "rnn": (5, 2, 2)}
NAMES = ("modular_addition", "random_machine", "modular_arithmetic")


def record_of(config, number=0):
    """A plausible record of a config, the same for the same config."""
    random = np.random.default_rng(int(key_of(config)[:12], 16))
    level, size = config["model"].split("(")[0], subject_of(config["task"]).size or 2
    place = next((i for i, name in enumerate(NAMES) if config["task"].startswith(name)), 0)
    reached = REACH.get(level, (0, 0, 0))[place]
    skill = 1.0 if size <= reached else max(0.0, random.normal(0.05, 0.05))
    skill *= 1.0 if config["recipe"] == "statewise" or level in ("lstm", "rnn") else random.choice([1.0, 0.6, 0.1])
    skill *= 1.0 if config["additive"] == "none" else 0.3
    skill *= 1.0 if config["samples"] is None else min(1.0, config["samples"] / 2048)
    skill, status = float(skill), "diverged" if random.random() < 0.02 else "done"
    lengths = config["test_lengths"]
    scores = [
        min(1.0, max(-0.25, skill * (1 - 0.12 * max(0.0, math.log10(n / 500)) * random.random()))) for n in lengths
    ]
    looks = [
        {
            "step": step,
            "loss": float(math.log(size) * math.exp(-4 * skill * step / config["steps"]) * random.uniform(0.7, 1.3)),
            "scores": [min(1.0, 2 * skill * step / config["steps"]), min(1.0, skill * step / config["steps"])],
            "seconds": step / 100,
            "validation": None,
        }
        for step in range(config["every"], config["steps"] + 1, config["every"])
    ]
    done = status == "done"
    return {
        "key": key_of(config),
        "status": status,
        "config": config,
        "steps": config["steps"],
        "seconds": round(config["steps"] / 97, 2),
        "tokens_per_second": 50_000,
        "loss": looks[-1]["loss"] if done else None,
        "parameters": config["hidden"] ** 2 * size,
        "scores": [_score(n, s, size) for n, s in zip(lengths, scores, strict=True)] if done else [],
        "in_distribution": _score(10, min(1.0, skill + 0.2), size) if done else None,
        "validation": None,
        "history": looks,
        "probe": [10, 500],
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "statewise": "0.1.0"},
        "commit": ("3697d2f" if number % 3 else "59aa59b") + "0" * 33,
        "finished": 1_790_000_000 + 40 * number,
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


def rotation_weights(config, noise=0.0):
    """Rotations by whole harmonics, which track sums exactly."""
    size = subject_of(config["task"]).size
    random = np.random.default_rng(7)
    planes = config["hidden"] // 2
    harmonics = 1 + np.arange(planes) % (size // 2)
    angles = 2 * np.pi * np.outer(harmonics, np.arange(size)) / size
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * random.uniform(0.3, 1.5, (planes, 1, 1))
    weights = _untrained(config)
    weights["transition.weight"] = angles + random.normal(0, noise, angles.shape)
    weights["initial_state"] = np.tile([1.0, 0.0], planes)
    weights["readout"] = turned.transpose(1, 0, 2).reshape(size, -1)
    return _saved(weights)


def full_weights(config):
    """One-hot states."""
    task = machine(config["task"])
    weights = _untrained(config)
    matrices = np.zeros_like(weights["transition.matrices"])
    for a in range(task.symbols):
        matrices[a, task.delta[:, a], np.arange(task.states)] = 1
    weights["transition.matrices"] = matrices
    weights["initial_state"] = np.eye(config["hidden"])[task.start]
    weights["readout"] = np.eye(config["hidden"])[: task.classes]
    return _saved(weights)


def _untrained(config):
    task = machine(config["task"])
    model = build_network(config, task.symbols, task.classes)
    return {name: value.numpy() for name, value in model.state_dict().items()}


def _saved(weights):
    return save({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()})


def fill(directory, names=(*TABLES, *FIGURES), preset="quick", every=1, further=()):
    """Writes a store with every so many of the grids' runs, weights of a few, and further records."""
    torch.set_num_threads(1)
    paper = read_paper()
    configs = [config for name in names for config in paper.runs(name, preset)][::every]
    configs = list({key_of(config): config for config in configs}.values())
    records = [record_of(config, number) for number, config in enumerate(configs)]
    weights = {}
    for config in configs:
        small = config["recipe"] == "statewise" and config["seed"] == 0 and config["additive"] == "none"
        sums = config["task"] in ("modular_addition(5)", "modular_addition(10)") and config["samples"] is None
        if small and config["model"] == "rotation" and sums:
            weights[key_of(config)] = rotation_weights(config, 1e-4)
        if (
            small
            and config["model"] == "full"
            and config["hidden"] == 64
            and config["task"].startswith("random_machine(5")
        ):
            weights[key_of(config)] = full_weights(config)
    with Store.open(directory, write=True) as store:
        store.add([*records, *further], weights)
    return records
