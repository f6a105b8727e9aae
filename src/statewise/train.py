"""The one training loop: gradients on batches of a task, with everything that a run must not lose in one value."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from statewise.errors import RunError
from statewise.task import Batch, Task


@dataclass(frozen=True)
class Optimisation:
    """How weights move.

    Args:
        lr: the highest learning rate.
        steps: how many steps the schedule spans.
        batch: words per step.
        schedule: "constant", or "cosine" from `lr` down to 0 at the last step.
        warmup: steps over which the rate rises from 0.
        weight_decay: decoupled decay of all weights (AdamW); 0 is Adam.
        readout_decay: a further decay of the readout alone.
        clip: the largest norm of a gradient; 0 leaves it alone.
        average: the share of steps at the end over which weights are averaged; 0 takes the last.
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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise RunError(f"lr is {self.lr}; expected a number above 0; use one such as 0.001")
        if self.steps < 1 or self.batch < 1 or self.warmup < 0:
            raise RunError(
                f"steps, batch and warmup are {self.steps}, {self.batch}, {self.warmup}; expected 1, 1, 0 or more"
            )
        if min(self.weight_decay, self.readout_decay, self.clip) < 0 or not 0 <= self.average <= 1:
            raise RunError("weight_decay, readout_decay and clip are 0 or more, average is from 0 to 1; correct them")

    def rate(self, step: int) -> float:
        """Gives the learning rate of a step, counted from 0."""
        rising = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        falling = (
            0.5 * (1 + math.cos(math.pi * min(step, self.steps) / self.steps)) if self.schedule == "cosine" else 1.0
        )
        return self.lr * rising * falling


class Training:
    """A model in training: advance it, look at it, save and restore it.

    Args:
        model: takes tokens, gives logits after each.
        task: where batches come from.
        optimisation: how weights move.
        seed: of the stream of batches.
    """

    def __init__(self, model: nn.Module, task: Task, optimisation: Optimisation, seed: int) -> None:
        self.model, self.task, self.optimisation, self.seed = model, task, optimisation, seed
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        readout = [p for name, p in trained.items() if name.startswith("readout")]
        others = [p for name, p in trained.items() if not name.startswith("readout")]
        decay = optimisation.weight_decay
        groups = [
            {"params": others, "weight_decay": decay},
            {"params": readout, "weight_decay": decay + optimisation.readout_decay},
        ]
        self.optimiser = torch.optim.AdamW([group for group in groups if group["params"]], lr=optimisation.lr)
        self.averaged = {name: p.detach().clone() for name, p in trained.items()}
        self.step = 0
        self.tokens = 0
        self.loss = math.nan
        self.diverged = False

    def advance(self, steps: int) -> float:
        """Takes so many steps, or as many as remain finite; gives the mean loss over them."""
        total = 0.0
        done = 0
        self.model.train()
        for _ in range(steps):
            loss = self._one_step()
            if not math.isfinite(loss):
                self.diverged = True
                break
            total += loss
            done += 1
        self.loss = total / done if done else math.nan
        return self.loss

    def _one_step(self) -> float:
        batch = self.task.batch(self.seed, self.step, self.optimisation.batch)
        logits = self.model(torch.from_numpy(batch.words))
        loss = objective(logits, batch, self.task.supervision)
        value = loss.item()
        if not math.isfinite(value):
            return value
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self.optimisation.clip:
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.optimisation.clip)
            if not math.isfinite(norm.item()):
                return math.nan
        for group in self.optimiser.param_groups:
            group["lr"] = self.optimisation.rate(self.step)
        self.optimiser.step()
        self.step += 1
        self.tokens += int(batch.lengths.sum())
        self._average()
        return value

    def use_average(self) -> bool:
        """Puts the averaged weights, if there are any, in place of the last ones; says whether it did."""
        if not self.optimisation.average:
            return False
        self.model.load_state_dict(self.averaged, strict=False)
        return True

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Gives everything that the next step depends on, as tensors by name and plain values."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.optimisation.average:
            tensors |= {f"averaged.{name}": value for name, value in self.averaged.items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser.{key}.{name}"] = torch.as_tensor(value)
        return tensors, {"step": self.step, "loss": self.loss, "tokens": self.tokens}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Takes a saved state up; going on is then the same, bit for bit, as never having stopped."""
        weights = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
        try:
            self.model.load_state_dict(weights)
        except RuntimeError:
            raise RunError("the checkpoint holds weights of another model; use another directory") from None
        for name, parameter in self.model.named_parameters():
            if f"averaged.{name}" in tensors:
                self.averaged[name].copy_(tensors[f"averaged.{name}"])
            saved = {
                key.split(".")[1]: value.clone()
                for key, value in tensors.items()
                if key.startswith("optimiser.") and key.split(".", 2)[2] == name
            }
            if saved:
                self.optimiser.state[parameter] = saved
        self.step, self.loss, self.tokens = int(values["step"]), float(values["loss"]), int(values["tokens"])

    def _average(self) -> None:
        first = self.optimisation.steps * (1 - self.optimisation.average)
        seen = self.step - first
        if not self.optimisation.average or seen <= 0:
            return
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in self.averaged:
                    self.averaged[name].lerp_(parameter, 1.0 / max(1.0, math.ceil(seen)))


def objective(logits: Tensor, batch: Batch, supervision: str) -> Tensor:
    """Gives the cross-entropy at the end of words, or after each of their symbols."""
    if supervision == "final":
        at_end = logits[torch.arange(len(batch.lengths)), torch.from_numpy(batch.lengths - 1)]
        return nn.functional.cross_entropy(at_end, torch.from_numpy(batch.finals))
    time = torch.arange(logits.shape[1])
    inside = time < torch.from_numpy(batch.lengths).unsqueeze(1)
    return nn.functional.cross_entropy(logits[inside], torch.from_numpy(batch.outputs)[inside])
