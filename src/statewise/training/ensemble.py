"""Many runs of one shape trained in one tensor program, each recorded as if it had run alone.

Members differ in seed, rate, schedule, data or machine. Their weights lie one after the other in one tensor, and the
tokens of member m are numbered from m V: a table of coefficients then holds all members, and the recurrence of one
network computes them all. No number of one member enters another's: one that diverges touches no other.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from statewise.errors import RunError
from statewise.kernels import choose
from statewise.models.tracker import StateTracker
from statewise.recurrence import (
    RESCALE_EVERY,
    FullWeights,
    TokenBatch,
    losses_and_gradients,
    read_direction,
    states_by_table,
    token_table,
)
from statewise.runs.run import Look, Story, begin, finish, look
from statewise.tasks.task import Batch
from statewise.training.adam import move
from statewise.training.training import Training
from statewise.transitions import CP, Full, LinearTransition


def run_together(stories: Sequence[Story], show: Callable[[int, Look, int], None]) -> list[dict[str, Any]]:
    """Runs several stories to their ends, and gives their records, in order.

    Each has its own directory, looks and early stop, and can be taken up alone or together. `show` is told which
    member a look is of.
    """
    check_alike([story.training for story in stories], begun=False)
    records: list[dict[str, Any] | None] = [begin(story) for story in stories]
    while waiting := [index for index, record in enumerate(records) if record is None]:
        for index in waiting:
            if stories[index].over:
                records[index] = finish(stories[index])
        under_way = [index for index in waiting if records[index] is None]
        # members that were cut short earlier than others catch up first
        for group in _alike(under_way, stories):
            advance_together([stories[index].training for index in group], stories[group[0]].until_look)
            for index in group:
                look(stories[index], lambda seen, steps, member=index: show(member, seen, steps))
    return [record for record in records if record is not None]


def advance_together(trainings: Sequence[Training], steps: int) -> None:
    """Takes so many steps with each training, all at once."""
    together = _Together(trainings)
    totals = [0.0] * len(trainings)
    done = [0] * len(trainings)
    for _ in range(steps):
        active = [member for member, training in enumerate(trainings) if not training.diverged]
        if not active:
            break
        losses = together.step()
        for member in active:
            if math.isfinite(losses[member]) and not trainings[member].diverged:
                totals[member] += losses[member]
                done[member] += 1
    together.write_back()
    for training, total, count in zip(trainings, totals, done, strict=True):
        training.loss = total / count if count else math.nan


def check_alike(trainings: Sequence[Training], begun: bool = True) -> None:
    """Refuses trainings that cannot share one tensor program, with the reason; those begun stand at one step too."""
    for training in trainings:
        model, task, how = training.model, training.task, training.optimisation
        if not isinstance(model, StateTracker) or not isinstance(model.transition, LinearTransition):
            raise RunError("an ensemble has trackers without additive terms only; train the others one by one")
        if isinstance(model.transition, CP):
            raise RunError("cp shares factors between tokens and cannot be stacked; train it one by one")
        if task.supervision != "final":
            raise RunError("an ensemble is asked at the end of words only; use supervision final")
        if how.average:
            raise RunError("an ensemble does not average weights over time; set average to 0")
        classes = len(model.readout)
        if task.machine.classes > classes:
            raise RunError(f"a task has {task.machine.classes} outputs and its model {classes}; build the model for it")
    shapes = {(*_shape(training), training.step if begun else 0) for training in trainings}
    if len(shapes) > 1:
        raise RunError("members of an ensemble have one shape: model, sizes, batch, readout and step; they differ here")


def _shape(training: Training) -> tuple[Any, ...]:
    model = training.model
    assert isinstance(model, StateTracker)
    sizes = tuple((name, tuple(p.shape), p.requires_grad, p.dtype) for name, p in model.named_parameters())
    return type(model.transition), sizes, model.readout_kind, training.optimisation.batch


def _alike(indices: list[int], stories: Sequence[Story]) -> list[list[int]]:
    """Groups members that stand at the same step and look at the same one next."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in indices:
        groups.setdefault((stories[index].training.step, stories[index].until_look), []).append(index)
    return list(groups.values())


class _Together:
    """The stacked weights and moments of several trainings."""

    def __init__(self, trainings: Sequence[Training]) -> None:
        check_alike(trainings)
        self.trainings = trainings
        first = trainings[0].model
        assert isinstance(first, StateTracker)
        self.template = first
        self.symbols = trainings[0].task.tokens
        named = [dict(training.model.named_parameters()) for training in trainings]
        self.weights = {
            name: torch.stack([parameters[name].detach() for parameters in named]).requires_grad_(p.requires_grad)
            for name, p in named[0].items()
        }
        self.trained = [name for name, weight in self.weights.items() if weight.requires_grad]
        self.moments = {
            name: (self._stack_moments(named, name, "exp_avg"), self._stack_moments(named, name, "exp_avg_sq"))
            for name in self.trained
        }
        self.table = _Table(first)
        one_hot_full = isinstance(first.transition, Full) and first.embeddings is None
        self.whole = one_hot_full and choose(first.backend, *self.weights.values()) == "native"

    def step(self) -> list[float]:
        """Takes one step with every member that has not diverged; gives all losses."""
        batches = [t.task.batch(t.seed, t.step, t.optimisation.batch) for t in self.trainings]
        values = self._through_kernel(batches) if self.whole else self._through_autograd(batches)
        for training, value in zip(self.trainings, values, strict=True):
            training.diverged = training.diverged or not math.isfinite(value)
        self._clip()
        rates = [math.nan if training.diverged else training.rate() for training in self.trainings]
        count = float(max(training.step for training in self.trainings) + 1)
        for name in self.trained:
            weight = self.weights[name]
            assert weight.grad is not None
            decays = [self._decay(training, name) for training in self.trainings]
            with torch.no_grad():
                move(weight, weight.grad, self.moments[name], count, rates, decays)
        for training, batch in zip(self.trainings, batches, strict=True):
            if not training.diverged:
                training.count(batch)
        return values

    def _clip(self) -> None:
        """Shortens each member's gradient to its own bound, as torch does; one that is not finite ends the member."""
        bounds = [training.optimisation.clip for training in self.trainings]
        if not any(bounds):
            return
        gradients = [grad for name in self.trained if (grad := self.weights[name].grad) is not None]
        norms = torch.stack([torch.linalg.vector_norm(grad.flatten(1), dim=1) for grad in gradients])
        norm = torch.linalg.vector_norm(norms, dim=0)
        for training, finite in zip(self.trainings, norm.isfinite().tolist(), strict=True):
            training.diverged = training.diverged or (not finite and training.optimisation.clip > 0)
        bound = torch.tensor(bounds, dtype=norm.dtype)
        factor = torch.where(bound > 0, (bound / (norm + 1e-6)).clamp(max=1.0), 1.0)
        for grad in gradients:
            grad.mul_(factor.view(-1, *[1] * (grad.ndim - 1)))

    def write_back(self) -> None:
        """Gives each training its weights and moments."""
        for member, training in enumerate(self.trainings):
            parameters = dict(training.model.named_parameters())
            with torch.no_grad():
                for name in self.trained:
                    parameters[name].copy_(self.weights[name][member])
                    first, second = (moment[member].clone() for moment in self.moments[name])
                    state = {"step": torch.tensor(float(training.step)), "exp_avg": first, "exp_avg_sq": second}
                    training.optimiser.state[parameters[name]] = state

    def _through_kernel(self, batches: list[Batch]) -> list[float]:
        """Computes losses and gradients in one call, member after member."""
        names = ("transition.matrices", "initial_state", "readout")
        weights = FullWeights(*(self.weights[name].detach() for name in names))
        direction = self.template.readout_kind == "normalised"
        losses, gradients = losses_and_gradients(weights, *_stack(batches), direction)
        for name, gradient in zip(names, (gradients.matrices, gradients.initial, gradients.readout), strict=True):
            self.weights[name].grad = gradient
        return losses.tolist()

    def _through_autograd(self, batches: list[Batch]) -> list[float]:
        """Computes losses and gradients of any level, all members at once."""
        tokens, lengths, answers = _stack(batches)
        members, size = lengths.shape
        tokens = tokens + (torch.arange(members) * self.symbols).view(-1, 1, 1)
        part = {f"model.{name}": w for name, w in self.weights.items() if name.startswith(("transition", "embeddings"))}
        table = vmap(lambda weights: functional_call(self.table, weights, ()))(part).flatten(0, 1)
        h0 = self.weights["initial_state"].unsqueeze(1).expand(-1, size, -1).flatten(0, 1)
        normalised = self.template.readout_kind == "normalised"
        level, backend = self.template.transition, self.template.backend
        every = RESCALE_EVERY if normalised else 0
        reading = TokenBatch(tokens.flatten(0, 1), lengths.flatten(), every, backend, members)
        h = states_by_table(level, table, h0, reading).unflatten(0, (members, size))
        readout = self.weights["readout"]
        logits = read_direction(h, readout) if normalised else h @ readout.mT
        each = nn.functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
        losses = each.view(members, size).mean(dim=1)
        for weight in self.weights.values():
            weight.grad = None
        losses.sum().backward()
        return losses.tolist()

    def _stack_moments(self, named: list[dict[str, nn.Parameter]], name: str, key: str) -> Tensor:
        """Takes up a moment of each member; it is 0 before the first step."""
        parameters = [parameters[name] for parameters in named]
        states = [t.optimiser.state.get(p, {}) for t, p in zip(self.trainings, parameters, strict=True)]
        return torch.stack([s.get(key, torch.zeros_like(p)) for s, p in zip(states, parameters, strict=True)]).detach()

    @staticmethod
    def _decay(training: Training, name: str) -> float:
        how = training.optimisation
        return how.weight_decay + (how.readout_decay if name.startswith("readout") else 0.0)


def _stack(batches: list[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """Puts words, lengths and answers of all members side by side, words padded with 0."""
    longest = max(batch.words.shape[1] for batch in batches)
    tokens = torch.zeros(len(batches), len(batches[0].lengths), longest, dtype=torch.int64)
    for member, batch in enumerate(batches):
        tokens[member, :, : batch.words.shape[1]] = torch.from_numpy(batch.words)
    lengths = torch.stack([torch.from_numpy(batch.lengths) for batch in batches])
    answers = torch.stack([torch.from_numpy(batch.finals) for batch in batches])
    return tokens, lengths, answers


class _Table(nn.Module):
    """The coefficients of a tracker's tokens, as a function of its weights."""

    def __init__(self, model: StateTracker) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor:
        return token_table(self.model.transition, self.model.embeddings)
