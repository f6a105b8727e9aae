"""How a score compares with a published one, and the likely reason where it does not agree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from statewise.models.table import kind_of
from statewise.training.options import RunOptions
from statewise.wording import counted

AGREES, ABOVE, BELOW = "agrees", "above the paper", "below the paper"
NOT_PUBLISHED, NOT_RUN, NOT_LEARNED = "not published", "not run", "not learned"
# marks of verdicts on a cell with a published number
MARKS = {AGREES: "=", ABOVE: "↑", BELOW: "↓", NOT_LEARNED: "~"}
# scores of some hundred sequences are this far from their mean, which at chance is 0
NOISE = 0.05
# the score on training lengths of a network that has learned them
LEARNED = 0.99
# of one that nearly has, and of one that has not
_NEARLY, _UNLEARNED = 0.95, 0.5
# how far below its score on training lengths a network that drifts is
_DRIFT = 0.3
# a loss that has vanished, and one that is far above that of guessing
_VANISHED, _UNSTABLE = 0.01, 10.0

Rate = TypeVar("Rate")


def best_rate(scores: Mapping[Rate, Sequence[tuple[float, float]]], constant: float = 0.0) -> Rate:
    """Return the rate whose median score at the long length is highest, as the paper chooses.

    Where none is above chance, the highest is a matter of luck; then, and among equals, the rate counts that learned
    most on training lengths.

    Args:
        scores: of every rate, for each seed at the long length and on training lengths.
        constant: the score of the best constant answer.
    """

    def rank(rate: Rate) -> tuple[float, float, float]:
        far, near = zip(*scores[rate], strict=True)
        return max(NOISE, constant, median(far)), median(near), median(far)

    return max(scores, key=rank)


def rate_by_training(inside: Mapping[Rate, tuple[Sequence[float], float | None]]) -> Rate:
    """Return the rate whose median score on training lengths is highest; among equals, that with the lowest loss.

    Args:
        inside: of every rate, the scores of all seeds on training lengths, and the last loss of training.
    """

    def rank(rate: Rate) -> tuple[float, float]:
        scores, loss = inside[rate]
        return median(scores), -math.inf if loss is None else -loss

    return max(inside, key=rank)


@dataclass(frozen=True)
class Evidence:
    """What the reasons are drawn from.

    Args:
        options: of one of the cell's runs.
        best: our score.
        published: the paper's.
        ceiling: what the algebra allows.
        ceiling_reason: why, or why that is not known.
        inside: our score on training lengths, at the best rate.
        constant: the score of the best constant answer.
        loss: the last of training, at the best rate.
        diverged: how many of the runs at the best rate diverged.
        failed: why runs could not be run.
        paper_hidden: the width in the paper.
        paper_steps: the steps in the paper.
        where: the lengths of the scores, in a word.
    """

    options: RunOptions
    best: float | None
    published: float | None
    ceiling: float | None
    ceiling_reason: str
    inside: float | None
    constant: float
    loss: float | None
    diverged: int
    failed: tuple[str, ...]
    paper_hidden: int
    paper_steps: int
    where: str = "500"

    @property
    def is_level(self) -> bool:
        """Whether the model is a level of the hierarchy, and not a baseline."""
        kind = kind_of(self.options.model)
        return kind is not None and kind.is_level


def judge(
    best: float | None, published: float | None, tolerance: float, inside: float | None, ceiling: float | None
) -> str:
    """Return the verdict on a cell.

    A score below chance counts as chance. Chance is no agreement where training lengths were not learned either, unless
    the algebra allows no more.
    """
    if best is None:
        return NOT_RUN
    if published is None:
        return NOT_PUBLISHED
    ours = max(0.0, best)
    # two decimals are published, so that a difference of exactly the tolerance counts as equal
    if abs(ours - published) <= tolerance + 1e-9:
        allowed = ceiling is None or ceiling > ours + NOISE
        return NOT_LEARNED if allowed and inside is not None and inside < LEARNED else AGREES
    return ABOVE if ours > published else BELOW


def explain(evidence: Evidence, verdict: str) -> str:
    """Return the likely reasons of a disagreement, and what of the runs must be known to read the number."""
    reasons = [*_disagreement(evidence, verdict), *_runs(evidence)]
    return "; ".join(reasons)


def _disagreement(evidence: Evidence, verdict: str) -> list[str]:
    if verdict == NOT_LEARNED:
        smaller = _smaller(evidence)
        learned = f"{evidence.inside:.2f} on training lengths" + (f", with {smaller}" if smaller else "")
        return [learned, *_unknown_ceiling(evidence)]
    if verdict not in (ABOVE, BELOW):
        return []
    assert evidence.best is not None
    reasons: list[str] = []
    if evidence.ceiling is not None and evidence.ceiling < 1:
        ceiling = f"the algebraic ceiling of {evidence.ceiling:.2f}"
        if abs(evidence.best - evidence.ceiling) <= NOISE:
            reasons.append(f"at {ceiling}")
        elif evidence.best > evidence.ceiling:
            reasons.append(f"above {ceiling}, which holds in the limit of long sequences only")
    if verdict == BELOW:
        reasons += _why_below(evidence)
    else:
        reasons += _why_above(evidence)
    if "random_machine" in evidence.options.task:
        reasons.append("the paper does not say whether symbols are permutations or maps, nor which machines were drawn")
    return reasons


def _why_below(evidence: Evidence) -> list[str]:
    assert evidence.best is not None
    reasons: list[str] = []
    inside = evidence.inside
    if inside is not None and inside >= _NEARLY and evidence.best < inside - _DRIFT:
        reasons.append(f"drift: {inside:.2f} on training lengths, {evidence.best:.2f} at {evidence.where}")
        options = evidence.options
        if evidence.is_level and options.readout == "plain" and options.loss == "cross-entropy":
            reasons.append(f"nothing is normalised in training{_effect_on_loss(evidence.loss)}")
    elif inside is not None and inside < _UNLEARNED:
        reasons.append(f"training lengths were not learned either ({inside:.2f})")
    elif inside is not None:
        reasons.append(f"{inside:.2f} on training lengths")
    reasons += _unknown_ceiling(evidence)
    smaller = _smaller(evidence)
    if smaller:
        reasons.append(f"a smaller budget than the paper's: {smaller}")
    return reasons


def _effect_on_loss(loss: float | None) -> str:
    if loss is not None and loss < _VANISHED:
        return ": states and logits can grow until the loss vanishes, before long sequences are learned"
    if loss is not None and loss > _UNSTABLE:
        return f": states and logits grew, and the loss with them, to {loss:,.0f}"
    return ""


def _unknown_ceiling(evidence: Evidence) -> list[str]:
    """Return what the level would need, where it is not known that it has it."""
    known = evidence.ceiling is not None or not evidence.is_level
    return [] if known else [evidence.ceiling_reason]


def _smaller(evidence: Evidence) -> str:
    options = evidence.options
    # our recipe is another training, not a shorter one
    short = options.recipe != "statewise" and options.steps < evidence.paper_steps
    parts = [f"{options.steps:,} of {evidence.paper_steps:,} steps"] if short else []
    if options.hidden < evidence.paper_hidden:
        parts.append(f"H {options.hidden} of {evidence.paper_hidden}")
    return ", ".join(parts)


def _why_above(evidence: Evidence) -> list[str]:
    assert evidence.published is not None
    reasons: list[str] = []
    if evidence.ceiling is not None and evidence.published < evidence.ceiling - NOISE:
        reasons.append(f"the algebra allows {evidence.ceiling:.2f}, so the published score is a matter of training")
    other = _other_training(evidence.options)
    differs = f"another training: {', '.join(other)}" if other else ""
    return [*reasons, differs or "rates, seeds and initial weights differ from the paper's, which are not all known"]


def _other_training(options: RunOptions) -> list[str]:
    """Return what of a training is not the paper's."""
    differs = {
        "the last hidden state is normalised": options.readout == "normalised",
        "squared error": options.loss == "squared",
        "answers after each symbol": options.supervision == "aligned",
        "lengths follow a curriculum": options.growth_share > 0,
        f"sequences grow to {options.late:,}": options.late > options.longest,
        "the rate decays": options.schedule != "constant",
        "weight decay": options.weight_decay > 0,
    }
    return [what for what, does in differs.items() if does]


def _runs(evidence: Evidence) -> list[str]:
    notes: list[str] = []
    if evidence.best is not None and evidence.constant > NOISE and evidence.best <= evidence.constant + NOISE:
        notes.append(
            f"always giving the most frequent output scores {evidence.constant:.2f} here, "
            "and this score does not exceed that baseline"
        )
    if evidence.diverged:
        notes.append(f"{counted(evidence.diverged, 'run')} diverged, counted as chance")
    if evidence.failed:
        notes.append(f"{len(evidence.failed)} could not be run: {evidence.failed[0]}")
    return notes
