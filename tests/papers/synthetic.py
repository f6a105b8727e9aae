"""Records as runs write them, without running anything."""

from typing import Any

from statewise.store import key_of


def record(config: dict[str, Any], at_500: float, inside: float = 1.0, **changed: Any) -> dict[str, Any]:
    """Gives the record of a run with a score at each test length."""
    return {
        "key": key_of(config),
        "status": "done",
        "config": config,
        "steps": config["steps"],
        "seconds": 1.0,
        "loss": 0.0,
        "parameters": 1,
        "scores": [
            {"length": length, "score": at_500 if length >= 500 else inside} for length in config["test_lengths"]
        ],
        "in_distribution": {"length": 10, "score": inside},
        "validation": None,
        "history": [],
        "probe": config["probe"],
        "finished": 1_000.0,
    } | changed


def failed(config: dict[str, Any]) -> dict[str, Any]:
    """Gives the record of a run that could not be run."""
    return {"key": key_of(config), "status": "failed", "config": config, "reason": "there was no memory"}
