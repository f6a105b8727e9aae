"""Training: options, loss, optimiser, the training step, the loop, evaluation and checkpoints."""

from typing import TYPE_CHECKING

from statewise.rooms import lazy_names
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
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "checkpoints": ("read_checkpoint", "write_checkpoint"),
        "evaluation": ("evaluate_held_out", "evaluate_model", "pooled"),
        "loop": ("Outcome", "Session", "check_lengths", "train_sessions"),
        "state": ("Training", "build_training", "load_weights"),
        "step": ("advance", "can_stack"),
    },
)

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
