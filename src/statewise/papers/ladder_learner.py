"""The learner without gradients on the rungs of the ladder: a machine from sequences such as networks train on.

It reads the 3,200 sequences that a network of the same seed reads once lengths have grown, with the answer after each
symbol, and is tested on the same sequences as that network. The method is chosen by one rule:

1. state merging (RPNI);
2. where that leaves transitions undetermined, least squares too;
3. the machine that explains more of the answers is kept, of equal ones the smaller, then that of state merging.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statewise.errors import StoreError, shorten
from statewise.machines import Machine, minimise
from statewise.papers.cards import LEARN, Card, Standing
from statewise.papers.rungs import RUNGS, Rung
from statewise.runs.record import FORMAT, Record, RecordedScore, provenance
from statewise.sweep.terms import SETTINGS, Terms
from statewise.sweep.trial_records import Trial
from statewise.tasks import Batch, Task
from statewise.theory.learning.edges import used_edges
from statewise.theory.learning.labelled import LabelledWords, count_words, walk
from statewise.theory.learning.state_merging import merge_states
from statewise.theory.learning.tables import fit_tables
from statewise.training.evaluation import pooled
from statewise.training.metrics import Score
from statewise.training.options import RunOptions

SEQUENCES, _BATCH = 3_200, 64
# the work of state merging grows steeply with the alphabet, since fewer sequences walk each transition
_MOST_SYMBOLS = 24

Whole = Annotated[int, Field(ge=0)]


class LearnerRow(BaseModel):
    """What the learner did on one rung.

    Args:
        task: the rung.
        seed: of the sequences.
        reason: why it was not run; None where it was.
        sequences: how many were read.
        prefixes: how many different beginnings these have.
        method: what found the machine.
        states: of the machine.
        explained: the share of answers that it explains.
        undetermined: how many of its transitions no sequence walks.
        seconds: of the learner, tests not included.
        scores: of the test, at each length.
        in_distribution: the score at training lengths.
        versions: of what the numbers depend on.
        commit: of the source tree.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    task: str
    seed: Whole
    reason: str | None = None
    sequences: Whole = 0
    prefixes: Whole = 0
    method: Literal["rpni", "least-squares"] | None = None
    states: Whole | None = None
    explained: Annotated[float, Field(ge=0, le=1)] | None = None
    undetermined: Whole | None = None
    seconds: Annotated[float, Field(ge=0)] = 0.0
    scores: tuple[RecordedScore, ...] = ()
    in_distribution: RecordedScore | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None


def learn_rung(task: str, seed: int, terms: Terms) -> LearnerRow:
    """Learn the machine of a rung, and test it as networks are; what would take too much work is not run.

    Args:
        task: the rung.
        seed: of the sequences.
        terms: those of the networks.
    """
    made, options = provenance(), _options(task, seed, terms)
    built = options.build_task()
    assert isinstance(built, Task)
    known = {"task": task, "seed": seed, "versions": made.versions, "commit": made.commit}
    if built.machine.symbols > _MOST_SYMBOLS:
        return LearnerRow(**known, reason=f"not run: {built.machine.symbols} symbols")
    data = read_prefixes(built, seed, options.lengths.growth)
    began = time.process_time()
    method, found = choose_machine(data)
    seconds = time.process_time() - began
    scores = [_score(found, built, built.test(seed, length, terms.words)) for length in terms.test_lengths]
    inside = pooled([_score(found, built, batch) for batch in built.familiar(seed, terms.words)])
    return LearnerRow(
        **known,
        sequences=SEQUENCES,
        prefixes=len(data.words),
        method=method,
        states=found.states,
        explained=data.explained(found) / data.total,
        undetermined=_undetermined(data, found),
        seconds=round(seconds, 2),
        scores=tuple(map(RecordedScore.of, scores)),
        in_distribution=RecordedScore.of(inside),
    )


def read_prefixes(task: Task, seed: int, first: int) -> LabelledWords:
    """Return every beginning of the sequences of training, with the answer after it.

    Args:
        task: answers after each symbol.
        seed: of the sequences.
        first: the number of the first batch.
    """
    words: list[list[int]] = []
    labels: list[int] = []
    for position in range(first, first + SEQUENCES // _BATCH):
        batch = task.batch(seed, position, _BATCH)
        rows = zip(batch.tokens.tolist(), batch.lengths.tolist(), batch.outputs.tolist(), strict=True)
        for tokens, length, outputs in rows:
            words += [tokens[:end] for end in range(1, length + 1)]
            labels += outputs[:length]
    return count_words(task.machine.alphabet, task.machine.output_names, words, labels)


def choose_machine(data: LabelledWords) -> tuple[Literal["rpni", "least-squares"], Machine]:
    """Learn a machine by the rule of this file, and return it with the method that found it."""
    merged = minimise(merge_states(data))
    if not _undetermined(data, merged):
        return "rpni", merged
    fitted = minimise(fit_tables(data).machine)
    better = (data.explained(fitted), -fitted.states) > (data.explained(merged), -merged.states)
    return ("least-squares", fitted) if better else ("rpni", merged)


def learner_card(rows: Iterable[LearnerRow], terms: Terms, rungs: Sequence[Rung] = RUNGS) -> Card:
    """Return the card of the learner; a rung that it did not run has no scores.

    Args:
        rows: of any rungs and seeds.
        terms: those of the networks.
        rungs: on the card, those that have rows.
    """
    by_task: dict[str, list[LearnerRow]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row)
    found = [(rung, by_task[rung.task]) for rung in rungs if rung.task in by_task]
    return Card(LEARN, tuple(Standing(rung, _trial(rung.task, some, terms)) for rung, some in found))


def read_rows(file: Path) -> list[LearnerRow]:
    """Read the rows of a file, one to a line."""
    try:
        return [LearnerRow.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError, ValidationError):
        raise StoreError(
            f'"{shorten(file)}" has no rows of the learner; write it anew with benchmarks/ladder_learner.py'
        ) from None


def _options(task: str, seed: int, terms: Terms) -> RunOptions:
    """Return the options of a network's run, which say what sequences there are; the model is the learner."""
    return terms.options(task, "full", SETTINGS[0], seed).model_copy(update={"model": LEARN})


def _trial(task: str, rows: Sequence[LearnerRow], terms: Terms) -> Trial:
    refused = next((row.reason for row in rows if row.reason is not None), None)
    if refused is not None:
        return Trial(task, LEARN, refused=refused)
    return Trial(task, LEARN, records=tuple(_record(row, terms) for row in sorted(rows, key=lambda row: row.seed)))


def _record(row: LearnerRow, terms: Terms) -> Record:
    options = _options(row.task, row.seed, terms)
    return Record(
        format=FORMAT,
        key=options.key(),
        status="done",
        config=options,
        seconds=row.seconds,
        scores=row.scores,
        in_distribution=row.in_distribution,
    )


def _undetermined(data: LabelledWords, machine: Machine) -> int:
    """Return how many transitions of a machine no word walks."""
    used = used_edges(data, walk(data.padded, machine.delta, machine.start), machine.states)
    return int((~used).sum())


def _score(machine: Machine, task: Task, batch: Batch) -> Score:
    """Return how often a machine is right at the end of sequences of one length."""
    ends = walk(batch.tokens, machine.delta, machine.start)[:, -1]
    right, majority = int((machine.outputs[ends] == batch.finals).sum()), np.bincount(batch.finals).max()
    return Score(batch.tokens.shape[1], len(ends), right, task.classes, int(majority) / len(ends))
