"""The one training step, for a single model and for many of one shape in one tensor program.

Members of an ensemble differ in seed, rate, schedule, data or machine. Their weights lie one after the other in one
tensor, and the tokens of member m are numbered from m V: a table of coefficients then holds all members, and the
recurrence of one network computes them all. No number of one member enters another's: one that diverges touches no
other. A single run is an ensemble of one wherever it can be stacked; other models go through autograd by themselves.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from statewise.errors import RunError
from statewise.kernels import choose
from statewise.models.table import kind_of
from statewise.models.tracker import StateTracker
from statewise.randomness import derive
from statewise.recurrence import (
    RESCALE_EVERY,
    FullWeights,
    TokenBatch,
    losses_and_gradients,
    read_direction,
    states_by_table,
    token_table,
)
from statewise.stages import say
from statewise.tasks import AT_END, Batch, Supervision
from statewise.training.adam import adam_step
from statewise.training.loss import answer_loss, objective
from statewise.training.options import RunOptions
from statewise.training.plans import Loss
from statewise.training.state import Training
from statewise.transitions import Full, LinearTransition


def stacking_obstacle(stackable: bool, additive: bool, supervision: Supervision, average: float) -> str | None:
    """Return why runs cannot be stacked into one tensor program; None if they can.

    Args:
        stackable: whether the level declares that its weights can be stacked.
        additive: whether there is an additive term.
        supervision: after which tokens answers are asked for.
        average: the share of steps over which weights are averaged.
    """
    if additive:
        return "an ensemble has trackers without additive terms only; train the others one by one"
    if not stackable:
        return "only trackers whose level is stackable share a tensor program; train the others one by one"
    if supervision not in AT_END:
        return "an ensemble is asked at the end of sequences only; use supervision final or closed"
    if average:
        return "an ensemble does not average weights over time; set average to 0"
    return None


def can_stack(options: RunOptions) -> bool:
    """Return whether a run of these options is trained as the member of an ensemble, if need be of itself alone.

    A member's numbers do not depend on its companions, so they are the same however runs are packed.
    """
    kind = kind_of(options.model)
    level = kind is not None and kind.stackable
    return stacking_obstacle(level, options.additive != "none", options.supervision, options.average) is None


def advance(trainings: Sequence[Training], steps: int, stop: Callable[[], bool] = lambda: False) -> None:
    """Take so many steps with each training, or as many as remain finite; set each one's mean loss over them.

    Several trainings must share one shape, so that one tensor program computes them all.

    Args:
        trainings: what is trained.
        steps: how many are taken.
        stop: asked before each step whether to end early; the mean loss then goes on with the steps that are left.
    """
    program = _Single(trainings) if len(trainings) == 1 and _obstacle(trainings[0]) else _Stacked(trainings)
    totals, done = [training.unfinished[0] for training in trainings], [t.unfinished[1] for t in trainings]
    stopped = False
    for _ in range(steps):
        stopped = stop()
        if stopped:
            break
        active = [member for member, training in enumerate(trainings) if not training.diverged]
        if not active:
            break
        losses = program.step()
        _say(trainings[active[0]])
        for member in active:
            if math.isfinite(losses[member]) and not trainings[member].diverged:
                totals[member] += losses[member]
                done[member] += 1
    program.write_back()
    for training, total, count in zip(trainings, totals, done, strict=True):
        training.unfinished = (total, count) if stopped else (0.0, 0)
        if not stopped:
            training.loss = total / count if count else math.nan


def _say(training: Training) -> None:
    step, steps = training.step, training.optimisation.steps
    say("training", step / steps, lambda: f"step {step:,} of {steps:,}")


class _Program(ABC):
    """What one step is made of: weights and moments of all members, stacked in the first dimension."""

    def __init__(self, trainings: Sequence[Training]) -> None:
        self.trainings = trainings
        self.weights: dict[str, Tensor] = {}
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        self.backends: dict[str, str] = {}

    @abstractmethod
    def losses(self, batches: list[Batch]) -> list[float]:
        """Compute each member's loss, and leave the gradients behind."""

    @abstractmethod
    def gradients(self) -> dict[str, Tensor]:
        """Return the gradients by name, stacked as the weights are."""

    @abstractmethod
    def write_back(self) -> None:
        """Give each training its weights and moments."""

    def step(self) -> list[float]:
        """Take one step with every member that has not diverged; return all losses."""
        batches = [training.batch() for training in self.trainings]
        values = self.losses(batches)
        for training, value in zip(self.trainings, values, strict=True):
            training.diverged = training.diverged or not math.isfinite(value)
        gradients = self.gradients()
        self._clip(list(gradients.values()))
        rates = [math.nan if training.diverged else training.rate() for training in self.trainings]
        count = float(max(training.step for training in self.trainings) + 1)
        if not all(map(math.isnan, rates)):
            for name, grad in gradients.items():
                decays = [training.optimisation.decay_of(name) for training in self.trainings]
                self._move(name, grad, count, rates, decays)
        for training, batch in zip(self.trainings, batches, strict=True):
            if not training.diverged:
                training.count(batch)
        return values

    def _move(self, name: str, grad: Tensor, count: float, rates: list[float], decays: list[float]) -> None:
        weight, moments = self.weights[name].detach(), self.moments[name]
        if name not in self.backends:
            self.backends[name] = choose(None, weight, grad, *moments)
        with torch.no_grad():
            adam_step(weight, grad, moments, count, rates, decays, self.backends[name])

    def _clip(self, gradients: list[Tensor]) -> None:
        """Shorten each member's gradient to its own bound; one that is not finite ends the member."""
        bounds = [training.optimisation.clip for training in self.trainings]
        if not any(bounds) or not gradients:
            return
        norms = torch.stack([torch.linalg.vector_norm(grad.flatten(1), dim=1) for grad in gradients])
        norm = torch.linalg.vector_norm(norms, dim=0)
        for training, finite in zip(self.trainings, norm.isfinite().tolist(), strict=True):
            training.diverged = training.diverged or (not finite and training.optimisation.clip > 0)
        bound = torch.tensor(bounds, dtype=norm.dtype, device=norm.device)
        factor = torch.where(bound > 0, (bound / (norm + 1e-6)).clamp(max=1.0), 1.0)
        for grad in gradients:
            grad.mul_(factor.view(-1, *[1] * (grad.ndim - 1)))


class _Single(_Program):
    """Any model by itself, through autograd; its weights are seen as a stack of one."""

    def __init__(self, trainings: Sequence[Training]) -> None:
        super().__init__(trainings)
        (self.training,) = trainings
        self.training.model.train()
        for name, parameter in self.training.trained.items():
            self.weights[name] = parameter.detach().unsqueeze(0)

    def losses(self, batches: list[Batch]) -> list[float]:
        # what a model draws by itself, such as dropout, depends on the seed and the step alone
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.training.seed, "step", self.training.step))
            loss = objective(self.training.model, batches[0], self.training.optimisation.loss)
        value = loss.item()
        for parameter in self.training.trained.values():
            parameter.grad = None
        if math.isfinite(value):
            loss.backward()
        return [value]

    def gradients(self) -> dict[str, Tensor]:
        held = {name: p.grad for name, p in self.training.trained.items() if p.grad is not None}
        for name, grad in held.items():
            if name not in self.moments:
                mean, square = self.training.moments[name] = _moments_of(self.training, name, grad)
                self.moments[name] = mean.unsqueeze(0), square.unsqueeze(0)
        return {name: grad.unsqueeze(0) for name, grad in held.items()}

    def write_back(self) -> None:
        """Leave all as it is: the stack of one is the training's own memory."""


class _Stacked(_Program):
    """Trackers of one shape in one tensor program."""

    def __init__(self, trainings: Sequence[Training]) -> None:
        super().__init__(trainings)
        check_alike(trainings)
        first = trainings[0].model
        assert isinstance(first, StateTracker)
        self.template = first
        self.symbols = trainings[0].task.vocabulary
        self.loss: Loss = trainings[0].optimisation.loss
        named = [dict(training.model.named_parameters()) for training in trainings]
        self.weights = {
            name: torch.stack([parameters[name].detach() for parameters in named]).requires_grad_(p.requires_grad)
            for name, p in named[0].items()
        }
        self.trained = [name for name, weight in self.weights.items() if weight.requires_grad]
        for name in self.trained:
            held = [_moments_of(training, name, self.weights[name][0].detach()) for training in trainings]
            self.moments[name] = torch.stack([mean for mean, _ in held]), torch.stack([square for _, square in held])
        self.table = _Table(first)
        one_hot_full = isinstance(first.transition, Full) and first.embeddings is None
        self.fused = one_hot_full and choose(first.backend, *self.weights.values()) == "native"

    def losses(self, batches: list[Batch]) -> list[float]:
        stacked = [part.to(self.template.device, non_blocking=True) for part in _stack(batches)]
        return self._through_kernel(*stacked) if self.fused else self._through_autograd(*stacked)

    def gradients(self) -> dict[str, Tensor]:
        return {name: grad for name in self.trained if (grad := self.weights[name].grad) is not None}

    def write_back(self) -> None:
        for member, training in enumerate(self.trainings):
            with torch.no_grad():
                for name, parameter in training.trained.items():
                    parameter.copy_(self.weights[name][member])
                    mean, square = (moment[member].clone() for moment in self.moments[name])
                    training.moments[name] = mean, square

    def _through_kernel(self, tokens: Tensor, lengths: Tensor, answers: Tensor) -> list[float]:
        """Compute losses and gradients in one call, member after member."""
        names = ("transition.matrices", "initial_state", "readout")
        weights = FullWeights(*(self.weights[name].detach() for name in names))
        direction = self.template.readout_kind == "normalised"
        losses, gradients = losses_and_gradients(weights, tokens, lengths, answers, direction, self.loss == "squared")
        for name, gradient in zip(names, (gradients.matrices, gradients.initial, gradients.readout), strict=True):
            self.weights[name].grad = gradient
        return losses.tolist()

    def _through_autograd(self, tokens: Tensor, lengths: Tensor, answers: Tensor) -> list[float]:
        """Compute losses and gradients of any level, all members at once."""
        members, size = lengths.shape
        tokens = tokens + (torch.arange(members, device=tokens.device) * self.symbols).view(-1, 1, 1)
        part = {f"model.{name}": w for name, w in self.weights.items() if name.startswith(("transition", "embeddings"))}
        table = vmap(lambda weights: functional_call(self.table, weights, ()))(part).flatten(0, 1)
        h0 = self.weights["initial_state"].unsqueeze(1).expand(-1, size, -1).flatten(0, 1)
        normalised = self.template.readout_kind == "normalised"
        every = RESCALE_EVERY if normalised else 0
        batch = TokenBatch(tokens.flatten(0, 1), lengths.flatten(), every, self.template.backend, members)
        h = states_by_table(self.template.transition, table, h0, batch).unflatten(0, (members, size))
        readout = self.weights["readout"]
        logits = read_direction(h, readout) if normalised else h @ readout.mT
        losses = answer_loss(logits.flatten(0, 1), answers.flatten(), self.loss, "none").view(members, size).mean(dim=1)
        for weight in self.weights.values():
            weight.grad = None
        losses.sum().backward()
        return losses.tolist()


class _Table(nn.Module):
    """The coefficients of a tracker's tokens, as a function of its weights."""

    def __init__(self, model: StateTracker) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor:
        return token_table(self.model.transition, self.model.embeddings)


def check_alike(trainings: Sequence[Training], begun: bool = True) -> None:
    """Refuse trainings that cannot share one tensor program, with the reason; those begun stand at one step too."""
    for training in trainings:
        obstacle = _obstacle(training)
        if obstacle is not None:
            raise RunError(obstacle)
    shapes = {(*_shape(training), training.step if begun else 0) for training in trainings}
    if len(shapes) > 1:
        raise RunError(
            "members of an ensemble have one shape: model, sizes, batch, readout, loss and step; they differ here"
        )


def _obstacle(training: Training) -> str | None:
    model, task = training.model, training.task
    transition = model.transition if isinstance(model, StateTracker) else None
    stackable = isinstance(transition, LinearTransition) and transition.stackable
    additive = transition is not None and not isinstance(transition, LinearTransition)
    obstacle = stacking_obstacle(stackable, additive, task.supervision, training.optimisation.average)
    if obstacle is None and isinstance(model, StateTracker) and task.source.classes > len(model.readout):
        outputs = f"{task.source.classes} outputs and its model {len(model.readout)}"
        return f"a task has {outputs}; build the model for it"
    return obstacle


def _shape(training: Training) -> tuple[Any, ...]:
    model = training.model
    assert isinstance(model, StateTracker)
    sizes = tuple((name, tuple(p.shape), p.requires_grad, p.dtype) for name, p in model.named_parameters())
    how = training.optimisation
    return type(model.transition), sizes, model.readout_kind, how.batch, how.loss


def _moments_of(training: Training, name: str, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return a parameter's moments, 0 before the first step, in the type of its weights: that may have changed."""
    mean, square = training.moments.get(name, (torch.zeros_like(like), torch.zeros_like(like)))
    return mean.to(like.dtype), square.to(like.dtype)


def _stack(batches: list[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """Put tokens, lengths and answers of all members side by side, tokens padded with 0."""
    longest = max(batch.tokens.shape[1] for batch in batches)
    tokens = torch.zeros(len(batches), len(batches[0].lengths), longest, dtype=torch.int64)
    for member, batch in enumerate(batches):
        tokens[member, :, : batch.tokens.shape[1]] = torch.from_numpy(batch.tokens)
    lengths = torch.stack([torch.from_numpy(batch.lengths) for batch in batches])
    answers = torch.stack([torch.from_numpy(batch.finals) for batch in batches])
    return tokens, lengths, answers
