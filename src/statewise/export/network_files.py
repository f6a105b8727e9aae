"""Networks as files of other runtimes, each read back and compared with the network itself.

Differences are those of logits, divided by the largest logit where that is above 1, on sequences of lengths and batches
that nothing was exported with.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from statewise.errors import InputError, ToolMissingError
from statewise.export.programs import forward_program, save_program, sequence_program, step_program
from statewise.export.steps import RecurrentStep, Step, TrackerStep, has_state
from statewise.files import write_bytes_whole
from statewise.models.interface import SequenceModel
from statewise.models.tracker import StateTracker
from statewise.randomness import stream

# batches and lengths of the comparison
_SHAPES = ((1, 1), (2, 7), (5, 23))


@dataclass(frozen=True)
class NetworkFiles:
    """A network in files.

    Args:
        sequence: the file of whole sequences.
        step: the file of the single step; None where the network has no state of fixed shapes.
        max_difference: between what the files and the network compute; None where nothing could run them.
        note: what is to be known besides.
    """

    sequence: Path
    step: Path | None
    max_difference: float | None
    note: str = ""


def step_file(file: Path) -> Path:
    """Return the name of the file of the single step: net.onnx has net.step.onnx beside it."""
    return file.with_name(f"{file.stem}.step{file.suffix}")


def write_onnx(model: SequenceModel, name: str, symbols: int, facts: Mapping[str, Any], file: Path) -> NetworkFiles:
    """Write a network as ONNX: whole sequences with free batch and length, and the single step beside them.

    Args:
        model: the network.
        name: of it, for messages.
        symbols: how many tokens it reads.
        facts: for the metadata.
        file: of whole sequences.
    """
    need_onnx(tracker=isinstance(model, StateTracker))

    from statewise.export.onnx_graph import sequence_model, step_model, tracker_graph
    from statewise.export.onnx_traced import traced_graph, traced_sequence

    single, whole = _steps(model)
    if single is None or whole is None:
        write_bytes_whole(file, traced_sequence(model, name, facts).SerializeToString())
        note = f"{name} has no state of fixed shapes, and so no single step"
        return NetworkFiles(file, None, _compare_onnx(model, symbols, file, None), note)
    once = tracker_graph(single) if isinstance(single, TrackerStep) else traced_graph(single, name)
    each = tracker_graph(whole) if isinstance(whole, TrackerStep) else once
    write_bytes_whole(file, sequence_model(whole, each, facts).SerializeToString())
    write_bytes_whole(step_file(file), step_model(single, once, facts).SerializeToString())
    return NetworkFiles(file, step_file(file), _compare_onnx(model, symbols, file, single))


def write_torch(model: SequenceModel, name: str, symbols: int, file: Path) -> NetworkFiles:
    """Write a network as programs of torch.export, with free batch and length, and load them again."""
    single, whole = _steps(model)
    if single is None or whole is None:
        save_program(forward_program(model, name, model.longest), file)
        note = f"{name} has no state of fixed shapes, and so no single step"
        return NetworkFiles(file, None, _compare_torch(model, symbols, file, None), note)
    once = step_program(single, name)
    save_program(sequence_program(whole, once if whole is single else step_program(whole, name), name), file)
    save_program(once, step_file(file))
    return NetworkFiles(file, step_file(file), _compare_torch(model, symbols, file, single))


def need_onnx(tracker: bool) -> None:
    """Refuse in one sentence where the packages of the extra are not installed.

    Args:
        tracker: whether the graph is written here; torch's exporter needs onnxscript too.
    """
    try:
        import onnx  # noqa: F401

        if not tracker:
            import onnxscript  # noqa: F401
    except ImportError as error:
        raise ToolMissingError(
            f"{error.name} is not installed; install statewise[export] to write ONNX files"
        ) from None


def _steps(model: SequenceModel) -> tuple[Step | None, Step | None]:
    """Return the single step, and the one that whole sequences are made of; None where the state grows.

    A plain readout gives logits of the state's own size over whole sequences, and of a state of norm 1 step by step.
    """
    if isinstance(model, StateTracker):
        single = TrackerStep(model)
        return single, single if model.readout_kind == "normalised" else TrackerStep(model, scaled=False)
    step = RecurrentStep.of(model) if has_state(model) else None
    return step, step


def _compare_onnx(model: SequenceModel, symbols: int, file: Path, single: Step | None) -> float | None:
    """Run the files in onnxruntime; None where that is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def opened(model: Path) -> Any:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    session = opened(file)

    def run(tokens: Tensor) -> Tensor:
        return torch.from_numpy(session.run(["all_logits"], {"tokens": tokens.numpy()})[0])

    if single is None:
        return _compare(model, symbols, run, None, None)
    stepping = opened(step_file(file))

    def step(token: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        given = {name: value.numpy() for name, value in zip(single.names, state, strict=True)}
        return tuple(map(torch.from_numpy, stepping.run(None, {"token": token.numpy(), **given})))

    return _compare(model, symbols, run, single, step)


def _compare_torch(model: SequenceModel, symbols: int, file: Path, single: Step | None) -> float:
    loaded = torch.export.load(file).module()
    stepping = None if single is None else torch.export.load(step_file(file)).module()
    return _compare(model, symbols, loaded, single, stepping)


def _compare(
    model: SequenceModel, symbols: int, run: Callable[..., Any], single: Step | None, step: Callable[..., Any] | None
) -> float:
    """Return the largest difference from the network, over whole sequences and step by step."""
    generator = stream(0, "export", symbols)
    largest = 0.0
    with torch.no_grad():
        for batch, length in _SHAPES:
            length = min(length, model.longest or length)
            tokens = torch.from_numpy(generator.integers(0, symbols, (batch, length)))
            largest = max(largest, difference(run(tokens), model(tokens)))
            if single is None or step is None:
                continue
            state, given = model.init_state(batch), single.begin(batch)
            for token in tokens.unbind(1):
                logits, state = model.step(token, state)
                found, *given = step(token, *given)
                largest = max(largest, difference(found, logits))
    return largest


def compare_models(model: SequenceModel, other: Callable[[Tensor], Tensor], symbols: int) -> float:
    """Return the largest difference of logits between a network and another, over whole sequences."""
    return _compare(model, symbols, other, None, None)


def difference(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative where numbers are above 1."""
    if found.shape != expected.shape:
        raise InputError(f"the exported network gives {tuple(found.shape)}, expected {tuple(expected.shape)}")
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1))


def rounding_of(model: SequenceModel, symbols: int) -> float | None:
    """Return how far the network itself is from the same in float64, on the sequences of the comparison."""
    if next(model.parameters()).dtype != torch.float32:
        return None
    doubled = copy.deepcopy(model).double()
    return _compare(model, symbols, lambda tokens: doubled(tokens).float(), None, None)
