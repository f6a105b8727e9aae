"""A model in training: everything that the next step depends on, in one value that can be saved and restored."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from statewise.errors import RunError
from statewise.models.interface import SequenceModel
from statewise.tasks import Batch, SequenceTask, Source
from statewise.training.options import RunOptions
from statewise.training.plans import Optimisation


class Training:
    """A model, its task, how it is optimised, and how far it is.

    Args:
        model: what is trained.
        task: where batches come from.
        optimisation: how weights are optimised.
        seed: of the stream of batches.
    """

    def __init__(self, model: SequenceModel, task: SequenceTask, optimisation: Optimisation, seed: int) -> None:
        self.model, self.task, self.optimisation, self.seed = model, task, optimisation, seed
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        # running means of each gradient and of its square, from the first step on
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        averaged = self.trained if optimisation.average else {}
        self.averaged = {name: p.detach().clone() for name, p in averaged.items()}
        self.step = 0
        self.tokens = 0
        self.loss = math.nan
        self.diverged = False
        # the sum of the losses since the last evaluation, and of how many steps, where those were interrupted
        self.unfinished: tuple[float, int] = (0.0, 0)

    def check_finite(self) -> None:
        """Call a training diverged whose weights are no longer finite, whatever its last loss was."""
        self.diverged = self.diverged or not all(bool(p.isfinite().all()) for p in self.model.parameters())

    def rate(self) -> float:
        """Return the learning rate of the next step."""
        stretch = self.task.lengths.bounds(self.step)[1] / self.task.lengths.longest
        return self.optimisation.rate(self.step, stretch)

    def batch(self) -> Batch:
        """Return the batch of the next step."""
        return self.task.batch(self.seed, self.step, self.optimisation.batch)

    def count(self, batch: Batch) -> None:
        """Count a step on a batch."""
        self.step += 1
        self.tokens += int(batch.lengths.sum())
        first = self.optimisation.steps * (1 - self.optimisation.average)
        if self.averaged and self.step > first:
            with torch.no_grad():
                for name, mean in self.averaged.items():
                    mean.lerp_(self.trained[name], 1.0 / max(1.0, math.ceil(self.step - first)))

    def use_average(self) -> bool:
        """Put the averaged weights, if there are any, in place of the last ones; return whether there were."""
        if self.averaged:
            self.model.load_state_dict(self.averaged, strict=False)
        return bool(self.averaged)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that the next step depends on, as tensors by name and plain values."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"averaged.{name}": value for name, value in self.averaged.items()}
        for name, (first, second) in self.moments.items():
            tensors |= {f"optimiser.exp_avg.{name}": first, f"optimiser.exp_avg_sq.{name}": second}
        values = {"step": self.step, "loss": self.loss, "tokens": self.tokens}
        return tensors, values | ({"unfinished": list(self.unfinished)} if self.unfinished[1] else {})

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore a saved state; going on is then the same, bit for bit, as never having stopped."""
        load_weights(self.model, tensors)
        for name, mean in self.averaged.items():
            mean.copy_(tensors[f"averaged.{name}"])
        for name in self.trained:
            saved = [tensors.get(f"optimiser.{moment}.{name}") for moment in ("exp_avg", "exp_avg_sq")]
            if saved[0] is not None and saved[1] is not None:
                at = self.model.device
                self.moments[name] = saved[0].to(at, copy=True), saved[1].to(at, copy=True)
        self.step, self.loss, self.tokens = int(values["step"]), float(values["loss"]), int(values["tokens"])
        total, count = values.get("unfinished", (0.0, 0))
        self.unfinished = float(total), int(count)


def build_training(
    options: RunOptions, kept: Source | None = None, own: type[nn.Module] | None = None, device: str = "cpu"
) -> Training:
    """Build a training at its first step.

    Args:
        options: of the run.
        kept: the machine or the sequences, where they are not to be built from their name.
        own: the class, where the model is a user's own.
        device: where it computes; the first weights are drawn on the CPU, and are the same on every device.
    """
    task = options.build_task(kept)
    model = options.model_options.build(task.vocabulary, task.source.classes, options.seed, own)
    return Training(model.to(device), task, options.optimisation, options.seed)


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put the weights of a checkpoint into a model, in their own dtype."""
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    named = dict(model.named_parameters())
    dtypes = [value.dtype for name, value in weights.items() if name in named and value.is_floating_point()]
    try:
        (model.to(dtypes[0]) if dtypes else model).load_state_dict(weights)
    except RuntimeError:
        raise RunError("the checkpoint holds weights of another model; use another directory") from None
