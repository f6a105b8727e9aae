"""Weights back into models: where a network is rebuilt from what a run directory or a store kept."""

from typing import TYPE_CHECKING

from torch import Tensor

from statewise.errors import RunError, shorten
from statewise.models import SequenceModel, StateTracker, is_own
from statewise.tasks import Source, count_tokens
from statewise.training.checkpoints import read_checkpoint
from statewise.training.options import RunOptions
from statewise.training.state import load_weights

if TYPE_CHECKING:
    from statewise.runs.run import Run


def load_model(run: "Run") -> SequenceModel:
    """Rebuild the network of a run directory."""
    assert run.path is not None
    saved = read_checkpoint(run.home)
    if saved is None:
        raise RunError(
            f'"{shorten(run.path)}" has no checkpoint: it was interrupted, or diverged at once; train it again'
        )
    if run.options is not None:
        if is_own(run.options.model) and run.own is None:
            raise RunError(
                f'"{shorten(run.path)}" holds a model of the class {shorten(run.options.model)}; '
                "give that class as model (--model), since a directory never makes statewise import code"
            )
        model = build_untrained(run.options, run.source, run.own)
    else:
        assert run.manifest is not None
        given = run.manifest
        model = StateTracker(run.source.symbols, run.source.classes, given.hidden, given.model, readout=given.readout)
    return rebuild(model, saved[0], str(run.path))


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
    return model
