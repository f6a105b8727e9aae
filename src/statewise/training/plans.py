"""What a run is to do, as plain values: how weights are optimised, and what is evaluated and when."""

import math
from dataclasses import dataclass
from typing import Literal

from statewise.errors import RunError, shorten
from statewise.tasks import MAX_LENGTH

Loss = Literal["cross-entropy", "squared"]


@dataclass(frozen=True)
class Optimisation:
    """How weights are optimised: AdamW, a schedule, clipping, averaging.

    Args:
        lr: the highest learning rate.
        steps: how many steps the schedule spans.
        batch: sequences per step.
        schedule: "constant", or "cosine" from `lr` down to 0 at the last step.
        warmup: steps over which the rate rises from 0.
        weight_decay: decoupled decay of all weights (AdamW); 0 is Adam.
        readout_decay: a further decay of the readout alone.
        clip: the largest norm of a gradient; 0 leaves it alone.
        average: the share of steps at the end over which weights are averaged; 0 takes the last.
        length_power: sequences that have grown k times as long as the longest at first divide the rate by
            k^length_power: an error of one angle grows with the length of a sequence, and so does what a step does to
            its end.
        loss: what is lowered: the cross-entropy of answers, or the squared distance of logits from one-hot answers.
    """

    lr: float = 1e-3
    steps: int = 10_000
    batch: int = 64
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    weight_decay: float = 0.0
    readout_decay: float = 0.0
    clip: float = 0.0
    average: float = 0.0
    length_power: float = 0.0
    loss: Loss = "cross-entropy"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise RunError(f"lr is {self.lr}; expected a number above 0; use one such as 0.001")
        if self.steps < 1 or self.batch < 1 or self.warmup < 0:
            raise RunError(
                f"steps, batch and warmup are {self.steps}, {self.batch}, {self.warmup}; expected 1, 1, 0 or more"
            )
        numbers = (self.weight_decay, self.readout_decay, self.clip, self.average, self.length_power)
        if not all(map(math.isfinite, numbers)):
            raise RunError(
                f"decays, clip, average and length_power are {numbers}; expected finite numbers; correct them"
            )
        if min(self.weight_decay, self.readout_decay, self.clip, self.length_power) < 0 or not 0 <= self.average <= 1:
            raise RunError(
                "weight_decay, readout_decay, clip and length_power are 0 or more, average is from 0 to 1; correct them"
            )

    def rate(self, step: int, stretch: float = 1.0) -> float:
        """Return the learning rate of a step, counted from 0, for lengths `stretch` times the longest at first."""
        rising = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        falling = (
            0.5 * (1 + math.cos(math.pi * min(step, self.steps) / self.steps)) if self.schedule == "cosine" else 1.0
        )
        return self.lr * rising * falling / max(1.0, stretch) ** self.length_power

    def decay_of(self, name: str) -> float:
        """Return the weight decay of a parameter, by its name."""
        return self.weight_decay + (self.readout_decay if name.startswith("readout") else 0.0)


@dataclass(frozen=True)
class EvaluationPlan:
    """What is evaluated, when, and when that is enough.

    Args:
        every: steps between evaluations during training.
        probe: the lengths of these.
        probe_words: sequences per length of these.
        lengths: the lengths of the final test.
        words: sequences per length of the final test.
        stop_score: end early once the score at the last probe has been this high `patience` evaluations in a row; 0
            never.
        patience: see `stop_score`.
        settle: end early once the loss has stayed below this for `patience` evaluations; 0 never. With validation
            sequences it is their loss that counts.
    """

    every: int = 250
    probe: tuple[int, ...] = (10, 500)
    probe_words: int = 256
    lengths: tuple[int, ...] = (10, 500)
    words: int = 1000
    stop_score: float = 0.0
    patience: int = 2
    settle: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.every, self.words, self.probe_words, self.patience, *self.probe, *self.lengths)
        if min(numbers) < 1 or not self.lengths or not self.probe:
            raise RunError(
                f"every, words and the test lengths are {self.every}, {self.words} and {shorten(self.lengths)}; "
                "expected numbers of at least 1; correct them"
            )
        if max(*self.probe, *self.lengths) > MAX_LENGTH:
            raise RunError(f"a test length is {max(*self.probe, *self.lengths)}; expected at most {MAX_LENGTH:,}")
