"""Write docs/lexer.md and its figure from results/lexer.jsonl.gz, lexer-machine.json and lexer-steps.json."""

import json
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from statewise.models.table import KINDS, kind_of
from statewise.report.paper_markdown import markdown
from statewise.store import read_records
from statewise.sweep.terms import SETTINGS
from statewise.sweep.trial_records import Trial, trial_of

ROOT = Path(__file__).parents[1]
RECORDS, MACHINE = ROOT / "results" / "lexer.jsonl.gz", ROOT / "results" / "lexer-machine.json"
STEPS = ROOT / "results" / "lexer-steps.json"
PAGE, FIGURE = ROOT / "docs" / "lexer.md", ROOT / "docs" / "lexer.svg"
# as many as the benchmark asks for
SEEDS = 3
HEAD = [
    "model", "parameters", "loss, rate", "settings", "seeds", "score on windows", "correct at the end of windows",
    "score on whole files", "each seed", "ms a step",
]  # fmt: skip

INTRODUCTION = """# A real task: Python's lexer

After each character of a source file, in which state is Python's lexer: code, comment, one of four kinds of string,
or escape? Networks train on windows of at most 64 characters that begin at a line of code, and are tested on whole
files that they have not seen, {longest:,} characters and less.

{verdict}

![Score on windows and on whole files](lexer.svg)

## How the data are made

- **Sequences.** The modules of the standard library of Python {python} that are plain ASCII, character by character:
  {symbols} symbols. Labels come from `tokenize`; a label depends on what has been read alone, so that an opening
  quotation mark is a string, a second one ends it, and a third makes it a triple one.
- **Training.** 20,000 windows of 32 to 64 characters, around each state as often as around any other, of four modules
  in five. Labels stand after each character.
- **Validation.** 1,000 windows of the same modules, drawn with another seed; some overlap those of training.
- **Test.** Of every fifth module, the files of at most 20,000 characters, read whole: {files} files, {characters:,}
  characters.

`python benchmarks/lexer.py STORE` makes the files, runs and resumes the comparison, and writes the records;
`examples/python_lexer.py` is the same in small.

## On equal terms

All models have hidden size {hidden}, {steps:,} steps of {batch} windows and the same sequences. Four settings of loss
and rate are tried with the first seed, and the best at training lengths is kept, as [`compare`](comparing.md) does. 0
is chance and 1 is perfect; on whole files a constant answer ("code") scores {constant:.2f}.
"""

LIMITS = """
Scores on windows count the {inside:,} characters of {few} validation windows, by which settings are chosen; the
column beside it has the last character of all 1,000. The last column is the processor time of a training step on one
core, the least of several; the runs themselves shared the machine with other work, so their seconds say nothing.
"""

MACHINE_SECTION = """
## What a finite-state level can do

The lexer is a finite-state machine: {states} states, none of which can be merged ({minimal_states} after
minimisation). Written as a table by hand, it gives the label of `tokenize` after each of the {total:,} characters of
all {modules} modules: {wrong} are wrong. So `full` tracks it exactly with hidden size {exact}, by weights that
[`compile`](exact-networks.md) writes and checks ({verified}). What the table shows of `full` is therefore what
training found, not what the level can do. `statewise machine` knows no lower level for it. The matrices of `rotation`
and `diagonal` commute: such a network knows how often each character was read and not in which order, so it cannot
tell a quotation mark inside of a comment from one before it.
"""


def page() -> str:
    """Write the page."""
    trials, facts = read_trials(), json.loads(MACHINE.read_text())
    first = next(record for trial in trials for record in trial.records if record.pooled is not None)
    options, inside = first.config, first.in_distribution
    assert first.pooled is not None
    assert first.pooled.at_end is not None
    assert inside is not None
    assert inside.at_end is not None
    text = INTRODUCTION.format(
        longest=20_000,
        verdict=verdict(trials),
        python=facts["python"],
        symbols=facts["symbols"],
        files=first.pooled.at_end.count,
        characters=first.pooled.count,
        hidden=options.hidden,
        steps=options.steps,
        batch=options.batch,
        constant=first.pooled.constant,
    )
    text += "\n" + markdown(HEAD, [row(trial) for trial in trials]) + "\n" + missing(trials)
    text += LIMITS.format(inside=inside.count, few=inside.at_end.count)
    return text + MACHINE_SECTION.format(
        **{name: facts[name] for name in ("states", "minimal_states", "wrong")},
        total=facts["characters"],
        modules=facts["files"],
        exact=facts["hidden"],
        verified="equal to the machine on all words, proven" if facts["verified"] else "not verified",
    )


def read_trials() -> list[Trial]:
    """Sort the records into models, from the highest level down, then the others."""
    by_model: dict[str, list[Any]] = {}
    for record in read_records(RECORDS):
        by_model.setdefault(record.config.model, []).append(record)
    order = list(KINDS)
    models = sorted(by_model, key=lambda model: order.index(_kind(model)))
    return [trial_of(by_model[model][0].config.task, model, by_model[model]) for model in models]


def row(trial: Trial) -> list[str]:
    """Return the row of a model."""
    ends = [record.validation.accuracy for record in trial.records if record.validation is not None]
    files = trial.pooled or ()
    return [
        f"`{trial.model}`",
        "–" if trial.parameters is None else f"{trial.parameters:,}",
        f"{trial.setting}" + (f"; {trial.count('diverged')} diverged" if trial.count("diverged") else ""),
        f"{len(trial.tuning)} of {len(SETTINGS)}",
        str(len(trial.records)),
        _mean(trial.train),
        f"{fmean(ends):.3f}" if ends else "–",
        _mean(files) + ("" if trial.pooled_beats_constant else " ×"),
        " ".join(f"{score:.2f}" for score in files),
        f"{1e3 * json.loads(STEPS.read_text())[trial.model]:.1f}",
    ]


def missing(trials: list[Trial]) -> str:
    """Say which runs are not there, so that nobody takes a part for the whole."""
    wanted, there = len(trials) * (len(SETTINGS) + SEEDS - 1), sum(map(_runs, trials))
    marks = "\n× does not beat the best constant answer.\n" if not all(t.pooled_beats_constant for t in trials) else ""
    if complete(trials):
        return marks
    return (
        f"{marks}\n**{there} of up to {wanted} runs are there.** Rows with fewer than {len(SETTINGS)} settings were "
        "not tuned to the end (unless their first setting is perfect\non windows, which ends the tuning), and no "
        "spread over seeds is known where there is one seed: small differences between rows mean nothing.\n"
    )


def complete(trials: list[Trial]) -> bool:
    """Return whether every model was tuned, and has all seeds."""
    # a first setting that is perfect at training lengths ends the tuning
    tuned = all(len(trial.tuning) == len(SETTINGS) or trial.tuning[0].score_id == 1 for trial in trials)
    return tuned and all(len(trial.records) >= SEEDS for trial in trials)


def _runs(trial: Trial) -> int:
    return len({record.key for record in (*trial.tuning, *trial.records)})


def verdict(trials: list[Trial]) -> str:
    """Say who wins, in one sentence."""
    best = sorted(trials, key=lambda trial: -_average(trial))
    level = next(trial for trial in best if (kind := kind_of(trial.model)) is not None and kind.is_level)
    names = ", then ".join(f"`{trial.model}` ({_average(trial):.2f})" for trial in best[:3])
    same = "" if level in best[:3] else f" The best bilinear level is `{level.model}` ({_average(level):.2f})."
    so_far = "" if complete(trials) else " so far"
    return f"**On whole files the best{so_far} are {names}.**{same}"


def draw() -> None:
    """Draw the scores on windows and on whole files as bars, the best on whole files first."""
    from statewise.report.figure import figure_of
    from statewise.report.palette import light_kinds

    trials = sorted(read_trials(), key=_average)
    near, far = light_kinds()[1], light_kinds()[0]
    constant = next(trial.pooled_constant for trial in trials if trial.pooled_constant is not None)
    with figure_of(FIGURE) as axes:
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_size_inches(7, 0.42 * len(trials) + 1.2)
        for place, trial in enumerate(trials):
            axes.barh(place + 0.2, fmean(trial.train) if trial.train else 0.0, 0.36, color=near)
            axes.barh(place - 0.2, _average(trial), 0.36, color=far)
        axes.axvline(constant, linestyle=":", color="#4a5563", label="constant answer on whole files")
        axes.barh(0, 0, color=near, label="windows of training lengths")
        axes.barh(0, 0, color=far, label="whole files")
        axes.set_yticks(range(len(trials)), [trial.model for trial in trials])
        axes.set_xlabel("score (0 chance, 1 perfect)")
        axes.set_xlim(min(0.0, *map(_average, trials)) - 0.02, 1.02)
        # across the whole figure, below the names too
        figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)


def _average(trial: Trial) -> float:
    """Return the mean score on whole files; a run that diverged counts as chance."""
    return fmean(trial.pooled) if trial.pooled else 0.0


def _mean(scores: tuple[float, ...]) -> str:
    if not scores:
        return "–"
    return f"{fmean(scores):.3f}" + (f" ± {pstdev(scores):.3f}" if len(scores) > 1 else "")


def _kind(model: str) -> str:
    kind = kind_of(model)
    assert kind is not None
    return kind.name


if __name__ == "__main__":
    PAGE.write_text(page())
    draw()
