"""Training: options, loss, optimiser, the training step, the loop, evaluation and checkpoints."""

from typing import TYPE_CHECKING, Any

from statewise.training.metrics import HeldOut, Metrics, Score
from statewise.training.options import RECIPES, RunOptions, resolve, validate_options
from statewise.training.plans import EvaluationPlan, Optimisation

if TYPE_CHECKING:
    from statewise.training.checkpoints import read_checkpoint, write_checkpoint
    from statewise.training.evaluation import evaluate_held_out, evaluate_model, pooled
    from statewise.training.loop import Outcome, Session, check_lengths, train_sessions
    from statewise.training.state import Training, build_training, load_weights
    from statewise.training.step import advance, can_stack

# what needs torch is imported when first used
_LAZY = {
    **dict.fromkeys(("read_checkpoint", "write_checkpoint"), "checkpoints"),
    **dict.fromkeys(("evaluate_held_out", "evaluate_model", "pooled"), "evaluation"),
    **dict.fromkeys(("Outcome", "Session", "check_lengths", "train_sessions"), "loop"),
    **dict.fromkeys(("Training", "build_training", "load_weights"), "state"),
    **dict.fromkeys(("advance", "can_stack"), "step"),
}

__all__ = [
    "RECIPES",
    "EvaluationPlan",
    "HeldOut",
    "Metrics",
    "Optimisation",
    "Outcome",
    "RunOptions",
    "Score",
    "Session",
    "Training",
    "advance",
    "build_training",
    "can_stack",
    "check_lengths",
    "evaluate_held_out",
    "evaluate_model",
    "load_weights",
    "pooled",
    "read_checkpoint",
    "resolve",
    "train_sessions",
    "validate_options",
    "write_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"statewise.training.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'statewise.training' has no attribute {name!r}")
