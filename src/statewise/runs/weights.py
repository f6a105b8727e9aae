"""Weights back into models: where a network is rebuilt from what a run directory or a store kept."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import save
from torch import Tensor

from statewise.errors import RunError, UnreadableError, shorten
from statewise.expressions import Call, parse
from statewise.models import SequenceModel, StateTracker, is_own
from statewise.runs.directory import begin_directory, write_aside, write_record
from statewise.tasks import Source, count_tokens
from statewise.training.checkpoints import parse_tensors, read_checkpoint, read_checkpoint_files, write_checkpoint
from statewise.training.manifest import WEIGHTS
from statewise.training.metrics import Metrics
from statewise.training.options import RunOptions
from statewise.training.state import load_weights

if TYPE_CHECKING:
    from statewise.runs.run import Run

# a record may say more of an evaluation than a checkpoint does
_METRICS = {field.name for field in fields(Metrics)}


def load_model(run: "Run") -> SequenceModel:
    """Rebuild the network of a run directory, or of a run of a store."""
    tensors = kept_tensors(run)
    _check_sizes(run, tensors)
    if run.options is not None:
        if is_own(run.options.model) and run.own is None:
            place = "a directory" if run.kept is None else "a store"
            raise RunError(
                f'"{shorten(run.where)}" holds a model of the class {shorten(run.options.model)}; '
                f"give that class as model (--model), since {place} never makes statewise import code"
            )
        model = build_untrained(run.options, run.source, run.own)
    else:
        assert run.manifest is not None
        given = run.manifest
        model = StateTracker(run.source.symbols, run.source.classes, given.hidden, given.model, readout=given.readout)
    return rebuild(model, tensors, str(run.where))


def _check_sizes(run: "Run", tensors: Mapping[str, Tensor]) -> None:
    """Refuse sizes that no kept tensor has, before memory is taken for them."""
    named = parse(run.name) if not is_own(run.name) else None
    numbers = [] if not isinstance(named, Call) else [*named.args, *named.kwargs.values()]
    sizes = [number for number in numbers if isinstance(number, int)]
    sizes += [run.options.hidden, run.options.embedding] if run.options is not None else []
    sizes += [run.manifest.hidden] if run.manifest is not None else []
    most = max((len(tensors), *(side for value in tensors.values() for side in value.shape)), default=0)
    if max(sizes, default=0) > most:
        raise RunError(
            f'the weights in "{shorten(run.where)}" fit no network of the model {shorten(run.name)}; make it anew'
        )


def kept_tensors(run: "Run") -> dict[str, Tensor]:
    """Return the weights of a run directory or of a run of a store by name; a run without any is one sentence."""
    if run.kept is None:
        saved = read_checkpoint(run.home)
        if saved is None:
            raise RunError(
                f'"{shorten(run.where)}" has no checkpoint: it was interrupted, or diverged at once; train it again'
            )
        return saved[0]
    where, status = shorten(run.kept.where, 120), "" if run.record is None else run.record.status
    if status in ("diverged", "failed"):
        raise RunError(f'the run "{where}" {status}, so that there is no network; train it with other options')
    if run.kept.weights is None:
        raise RunError(
            f'the weights of "{where}" were not kept: a store has those of small networks only; train it again, '
            f"with sw.train(config=sw.load('{where}').options.to_dict(), out=DIR)"
        )
    try:
        return parse_tensors(run.kept.weights)
    except UnreadableError:
        raise RunError(f'the weights of "{where}" are damaged; train it again') from None


def weights_file(run: "Run") -> bytes:
    """Return the safetensors file of a run: that of its directory or store, or the one that saving it would make."""
    if run.home is None and run.kept is None:
        return save({f"model.{name}": value.contiguous() for name, value in run.model.state_dict().items()})
    # a run without weights, or with damaged ones, has a sentence of its own
    tensors = kept_tensors(run)
    check_finite({name: value for name, value in tensors.items() if name.startswith("model.")}, str(run.where))
    if run.kept is not None:
        assert run.kept.weights is not None
        return run.kept.weights
    files = read_checkpoint_files(run.home)
    assert files is not None
    return files[WEIGHTS]


def export_run(run: "Run", directory: Path) -> None:
    """Write a run of a store as a run directory, which every command opens; no code is imported for it."""
    options, record, kept = run.options, run.record, run.kept
    assert options is not None
    assert record is not None
    assert kept is not None
    tensors = {f"model.{name.removeprefix('model.')}": value for name, value in kept_tensors(run).items()}
    if options.average:
        tensors |= {name.replace("model.", "averaged.", 1): value.clone() for name, value in tensors.items()}
    history = [asdict(Metrics(**metrics.model_dump(include=_METRICS))) for metrics in record.history]
    values = {"step": record.steps, "loss": record.loss, "tokens": 0, "history": history}

    def fill(aside: Path) -> None:
        begin_directory(aside, options, run.source, kept.source)
        write_record(aside, record)
        write_checkpoint(aside, f"step-{record.steps}", tensors, values)

    write_aside(directory, fill)


def build_untrained(options: RunOptions, source: Source, own: type | None = None) -> SequenceModel:
    """Build the network of a run's options for its machine, or for the symbols and outputs of its sequences."""
    tokens = count_tokens(options.supervision, source.symbols, source.classes)
    return options.model_options.build(tokens, source.classes, options.seed, own)


def rebuild(model: SequenceModel, tensors: dict[str, Tensor], where: str) -> SequenceModel:
    """Put kept weights into a network, in their own dtype; names may have the prefix that checkpoints give them."""
    kept = {name: value for name, value in tensors.items() if not name.startswith(("optimiser.", "averaged."))}
    named = {f"model.{name.removeprefix('model.')}": value for name, value in kept.items()}
    try:
        load_weights(model, named)
    except RunError:
        raise RunError(f'the weights in "{shorten(where)}" fit no network for its machine; make it anew') from None
    check_finite(dict(model.named_parameters()), where)
    return model


def check_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """Refuse weights that are infinite or no numbers: whatever is computed with them would be no number either."""
    wrong = next((name for name, value in weights.items() if not bool(value.isfinite().all())), None)
    if wrong is not None:
        raise RunError(
            f'the weights in "{shorten(where)}" are not finite ({shorten(wrong)}); train the network again, with a '
            "smaller rate"
        )
