"""Equal terms: what is the same for every model that is compared, and what is tuned alike for each.

`compare` and `ladder` train all models on the same sequences, lengths, steps, batch and supervision. Loss and rate are
tuned: every setting of one named set is tried with the first seed, the best by its score at training lengths is kept,
and the other seeds run that one only. Test lengths choose nothing. Weight decay, readout and initialisation are those
of each model's recipe.

Where a task has no machine, lengths, supervision and test sets are those of the task, for every model alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from statewise.machines import Machine
from statewise.tasks import Lengths, SequenceSource
from statewise.training.options import RunOptions, resolve
from statewise.training.plans import Loss


@dataclass(frozen=True)
class Setting:
    """What is tuned: the loss, and the learning rate."""

    loss: Loss
    lr: float

    def __str__(self) -> str:
        """Write the setting for a reader."""
        return f"{self.loss}, {self.lr:g}"


SHORTEST, LONGEST = Lengths.shortest, Lengths.longest
# of settings with equal scores the first is kept
SETTINGS = (
    Setting("squared", 5e-3),
    Setting("squared", 1e-3),
    Setting("cross-entropy", 5e-3),
    Setting("cross-entropy", 1e-3),
)
# of tasks without a machine, unless they have others
_OPEN = {"supervision": "final", "growth_share": 0.0, "late": 0}


@dataclass(frozen=True)
class Terms:
    """What is the same for all models.

    Args:
        steps: of training.
        test_lengths: at which trained networks are tested.
        words: test sequences per length.
        hidden: the hidden size.
    """

    steps: int
    test_lengths: tuple[int, ...]
    words: int
    hidden: int = 64

    def options(
        self,
        task: str,
        model: str,
        setting: Setting,
        seed: int,
        reads: int | None = None,
        kept: Machine | SequenceSource | None = None,
    ) -> RunOptions:
        """Return the options of a run.

        Args:
            task: the task, as options have it.
            model: the model, as options have it.
            setting: loss and rate.
            seed: of weights and sequences.
            reads: the longest sequence that the model reads; it is tested at no longer one.
            kept: the machine of the task, where its name does not build it; of a task without a machine, its source.
        """
        alike = {
            "task": task,
            "model": model,
            "seed": seed,
            "loss": setting.loss,
            "lr": setting.lr,
            "steps": self.steps,
            "hidden": self.hidden,
            "batch": 64,
            "schedule": "cosine",
            "warmup": 100,
            "clip": 1.0,
            "every": 500,
        }
        if isinstance(kept, SequenceSource):
            # what the task leaves open is no matter of a model's recipe
            found = resolve(alike | _OPEN | dict(kept.defaults(alike)), kept=kept)
            tested = readable(found.test_lengths, reads)
            return found.change(test_lengths=tested) if tested else found
        of_machines = {
            "shortest": SHORTEST,
            "longest": LONGEST,
            "growth_share": 0.3,
            "late": 0,
            "supervision": "aligned",
            "tests": "balanced",
            "words": self.words,
            "test_lengths": readable(self.test_lengths, reads) or (LONGEST,),
            # evaluations during training are at training lengths only
            "probe": (LONGEST,),
        }
        return resolve(alike | of_machines, kept=kept)

    def __str__(self) -> str:
        """Write the terms of tasks that have machines for a reader."""
        return (
            f"trained on {SHORTEST} to {LONGEST} symbols with a curriculum, balanced where the machine is skewed, "
            f"answered after each symbol; {self.alike}; {self.words:,} balanced test sequences per length"
        )

    @property
    def alike(self) -> str:
        """What is the same for all tasks, for a reader."""
        tuned = "; ".join(map(str, SETTINGS))
        return (
            f"{self.steps:,} steps of 64 sequences, hidden size {self.hidden}; loss and rate tuned at training lengths "
            f"with the first seed ({tuned})"
        )


def readable(lengths: Iterable[int], reads: int | None) -> tuple[int, ...]:
    """Return the lengths that a model reads."""
    return tuple(length for length in lengths if reads is None or length <= reads)
