"""`statewise train` and `statewise eval`."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import RunError, shorten
from statewise.report.figure import check_figure_file
from statewise.training.options import RunConfig, resolve

EVENTS = "events"


def train(
    out: Annotated[Path, typer.Option(help="The run's directory; a run that was cut short is taken up.")],
    task: Annotated[str | None, typer.Option(metavar="MACHINE", help="What is tracked.")] = None,
    model: Annotated[str | None, typer.Option(help="A level such as full or block(2), or a baseline.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with any of these options.")] = None,
    recipe: Annotated[str | None, typer.Option(help="statewise (ours), or stated (the paper's).")] = None,
    hidden: Annotated[int | None, typer.Option(help="The hidden size.")] = None,
    embedding: Annotated[int | None, typer.Option(help="The size of a trained embedding; 0 is one-hot.")] = None,
    additive: Annotated[str | None, typer.Option(help="none, constant or input.")] = None,
    readout: Annotated[str | None, typer.Option(help="plain or normalised.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Words per step.")] = None,
    lr: Annotated[float | None, typer.Option(help="The highest learning rate.")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant or cosine.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Decay of all weights.")] = None,
    longest: Annotated[int | None, typer.Option(help="The longest training words.")] = None,
    late: Annotated[int | None, typer.Option(help="The longest words late in training; 0 for none.")] = None,
    supervision: Annotated[str | None, typer.Option(help="final, aligned or chain (of thought).")] = None,
    samples: Annotated[int | None, typer.Option(help="Train on so many words only.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and words.")] = None,
    validation: Annotated[int | None, typer.Option(help="Set so many further words aside, and report them.")] = None,
    stop_score: Annotated[float | None, typer.Option(help="End once this score is reached at length 500.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; one is bit for bit repeatable.")] = 1,
    tensorboard: Annotated[bool, typer.Option(help="Write scalars for TensorBoard into OUT/events.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train one model on one machine."""
    names = set(RunConfig.model_fields) & set(locals())
    given = {name: value for name, value in locals().items() if name in names}
    resolved = resolve(config, given).model_dump(mode="json")

    import torch

    from statewise.runs.run import run
    from statewise.training.assemble import build_plan, build_training

    torch.set_num_threads(threads)
    training = build_training(resolved)
    with _scalars(out / EVENTS if tensorboard else None, resolved["probe"]) as write_scalars:

        def see(look: Any, steps: int) -> None:
            show_progress(look, steps)
            write_scalars(look, steps)

        record = run(training, build_plan(resolved), resolved, out, see)
    by_length = {score["length"]: score["score"] for score in record["scores"]}
    inside = record["in_distribution"]
    result: dict[str, Any] = {
        "run": str(out),
        "status": record["status"],
        "score_id": None if inside is None else inside["score"],
        "score_ood": by_length.get(max(by_length, default=0)),
        "steps": record["steps"],
        "seconds": record["seconds"],
    }
    loss, inside_score = (math.nan if value is None else value for value in (record["loss"], result["score_id"]))
    lines = [
        ("run", f"{out}: {resolved['model']} on {resolved['task']}, {record['status']}"),
        ("steps", f"{record['steps']:,} in {record['seconds']:.1f} s, last loss {loss:.3g}"),
        ("training lengths", f"score {inside_score:.3f}"),
        *((f"length {length:,}", f"score {score:.3f}") for length, score in by_length.items()),
    ]
    show(result, json, lines)
    if record["status"] == "diverged":
        raise typer.Exit(1)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.")],
    lengths: Annotated[str, typer.Option(help="Word lengths, separated by commas.")] = "10,500,10000",
    words: Annotated[int, typer.Option(help="Words per length.")] = 200,
    reembed: Annotated[int, typer.Option(min=0, help="Put the nearest prototype in place every so many symbols.")] = 0,
    sign_rule: Annotated[bool, typer.Option(help="Put the sign of the hidden state right.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw score against length into this .png or .svg.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Try a trained model at any lengths."""
    asked = _lengths(lengths)
    if words < 1:
        raise RunError(f"words is {words}; expected at least 1; correct it")
    if plot is not None:
        check_figure_file(plot)

    import torch

    from statewise.cli.saved import load_run
    from statewise.training.evaluation import evaluate as score_all

    torch.set_num_threads(threads)
    saved = load_run(run)
    model = _corrected(saved, reembed, sign_rule) if reembed or sign_rule else saved.model
    scores = score_all(model, saved.task, asked, words, saved.options["seed"] + 1)
    result: dict[str, Any] = {
        "run": str(run),
        "lengths": asked,
        "accuracy": [s.accuracy for s in scores],
        "score": [s.score for s in scores],
        "score_majority": [s.score_majority for s in scores],
        "words": words,
    }
    if plot is not None:
        from statewise.report.curves import draw_scores

        draw_scores(plot, asked, result["score"], f"{saved.options['model']} on {saved.options['task']}")
        result["plot"] = str(plot)
    lines = [(f"length {s.length:,}", f"accuracy {s.accuracy:.3f}  score {s.score:.3f}") for s in scores]
    show(result, json, lines + ([("plot", str(plot))] if plot else []))


def _corrected(saved: Any, every: int, sign_rule: bool) -> Any:
    from statewise.theory.correction import Corrected
    from statewise.theory.snap import prototypes

    found = prototypes(saved.network, saved.machine, saved.shortest, saved.options["longest"])
    return Corrected(saved.model, found, every, sign_rule)


def show_progress(look: Any, steps: int) -> None:
    """Prints one line on stderr, if that is a terminal: step, loss, scores, rate and the time left."""
    if not sys.stderr.isatty():
        return
    rate = look.step / look.seconds if look.seconds else 0.0
    left = (steps - look.step) / rate if rate else 0.0
    scores = " ".join(f"{score:6.3f}" for score in look.scores)
    line = f"step {look.step:,}/{steps:,}  loss {look.loss:.4f}  scores {scores}  {rate:.0f} steps/s  {left:.0f} s left"
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _scalars(folder: Path | None, lengths: list[int]) -> Iterator[Callable[[Any, int], None]]:
    """Gives a function that writes what a look saw for TensorBoard, or one that does nothing."""
    if folder is None:
        yield lambda look, steps: None
        return
    from statewise.report.scalars import Scalars

    with Scalars(folder, lengths) as scalars:
        yield scalars.write


def _lengths(text: str) -> list[int]:
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        raise RunError(f'lengths are "{shorten(text)}"; expected whole numbers such as 10,500; correct them') from None
    if not lengths or min(lengths) < 1:
        raise RunError(f'lengths are "{shorten(text)}"; expected numbers of at least 1; correct them')
    return lengths
