"""The one training loop: gradients on batches of a task, with everything that a run must not lose in one value."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from statewise.errors import RunError
from statewise.tasks.task import Batch, Task
from statewise.training.adam import Adam
from statewise.training.loss import objective
from statewise.training.plan import Optimisation


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
        self.optimiser = Adam([group for group in groups if group["params"]], lr=optimisation.lr)
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

    def check_finite(self) -> None:
        """Calls a training diverged whose weights are no longer finite, whatever its last loss was."""
        self.diverged = self.diverged or not all(bool(p.isfinite().all()) for p in self.model.parameters())

    def rate(self) -> float:
        """Gives the learning rate of the next step."""
        stretch = self.task.lengths.bounds(self.step)[1] / self.task.lengths.longest
        return self.optimisation.rate(self.step, stretch)

    def _one_step(self) -> float:
        batch = self.task.batch(self.seed, self.step, self.optimisation.batch)
        loss = objective(self.model, batch)
        value = loss.item()
        if not math.isfinite(value):
            return value
        self.optimiser.zero_grad()
        loss.backward()
        if self.optimisation.clip:
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.optimisation.clip)
            if not math.isfinite(norm.item()):
                return math.nan
        rate = self.rate()
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.count(batch)
        return value

    def count(self, batch: Batch) -> None:
        """Notes that a step on a batch has been taken."""
        self.step += 1
        self.tokens += int(batch.lengths.sum())
        self._average()

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
