"""`statewise export`: a network, or the machine that it is, for use elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, torch_threads
from statewise.errors import NetworkError, RunError, shorten, unknown_name
from statewise.files import write_whole
from statewise.machines import Machine, write_machine
from statewise.machines.machine_files import to_json
from statewise.randomness import stream
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.export.network_files import NetworkFiles

# above this difference of logits, a file is not the network
_MOST_DIFFERENCE = 1e-4
# above this one, what the network's own rounding does is shown beside it
_USUAL_DIFFERENCE = 1e-5
_ENDINGS = {"onnx": (".onnx",), "torch": (".pt2",), "c": (".h",), "dot": (".dot", ".gv"), "json": (".json",)}
# of the C header, the lengths of the words on which it is compared
_WORD_LENGTHS = (1, 2, 5, 10, 40)


@dataclass(frozen=True)
class Exported(Result):
    """What was written, and how far it is from the network.

    Args:
        to: the format.
        path: the file, or the directory.
        step: the file of the single step, where there is one.
        max_difference: between the logits of what was written, read back, and those of the network, relative where
            they are above 1; of a machine or a C table between answers, 0 or 1; None where nothing was compared.
        says: what was written, and how it was compared.
        proven: of a machine, whether it is proven equal to the network; None of a network.
    """

    to: str
    path: Path
    step: Path | None = None
    max_difference: float | None = None
    says: str = ""
    proven: bool | None = None

    @property
    def failed(self) -> bool:
        """Whether what was written differs from the network."""
        return self.max_difference is not None and not self.max_difference <= _MOST_DIFFERENCE

    def to_dict(self) -> dict[str, Any]:
        """Return what was written."""
        return {
            "path": str(self.path),
            "to": self.to,
            "step": None if self.step is None else str(self.step),
            "max_difference": self.max_difference,
            "proven": self.proven,
            "reason": self.says,
        }

    def lines(self) -> Lines:
        """Return what was written for a reader."""
        lines = [(self.to, self.says), ("path", str(self.path))]
        if self.step is not None:
            lines.append(("single step", str(self.step)))
        if self.max_difference is None:
            return lines
        judged = f"{self.max_difference:.1e} at most from the network"
        if self.failed:
            judged = f"{judged}: above {_MOST_DIFFERENCE:.0e}, so this is not the network"
        return [*lines, ("difference", judged)]


def export(run: RunLike, to: str, out: PathLike, model: str | type | None = None) -> Exported:
    """Write a network, or the machine that it is, for use elsewhere, and compare it with the network.

    Args:
        run: the directory of a network, or STORE#KEY
        to: onnx, torch (a program of torch.export), c (a C99 header), safetensors (a directory with weights, config and
            model card), or dot and json (the machine)
        out: the file; of safetensors the directory
        model: the class of a run of one's own, such as file.py:Class
    """
    if to not in _WRITERS:
        raise unknown_name("format", str(to), _WRITERS)
    place = Path(out)
    endings = _ENDINGS.get(to)
    if endings is not None and place.suffix.lower() not in endings:
        raise RunError(
            f'out is "{shorten(place.name)}"; expected a name that ends in {" or ".join(endings)}; rename it'
        )
    opened = load(run, model)
    with torch_threads(1):
        return _WRITERS[to](opened, place)


def _onnx(run: Run, file: Path) -> Exported:
    from statewise.export.network_files import write_onnx

    facts = {
        "model": run.name,
        "task": run.source.name,
        "alphabet": list(run.source.alphabet),
        "outputs": list(run.source.output_names),
    }
    written = write_onnx(run.model, run.name, _tokens(run), facts, file)
    return _network(run, "onnx", written, "onnxruntime is not installed, so nothing was compared")


def _torch(run: Run, file: Path) -> Exported:
    from statewise.export.network_files import write_torch

    return _network(run, "torch", write_torch(run.model, run.name, _tokens(run), file), "")


def _network(run: Run, to: str, written: "NetworkFiles", unchecked: str) -> Exported:
    says = [f"{run.name} on {shorten(run.source.name)}: sequences of any batch and length"]
    says += [written.note] if written.note else []
    if written.max_difference is None:
        says.append(unchecked)
    elif written.max_difference > _USUAL_DIFFERENCE:
        from statewise.export.network_files import rounding_of

        own = rounding_of(run.model, _tokens(run))
        says += [] if own is None else [f"its own rounding in float32 is {own:.1e}"]
    return Exported(to, written.sequence, written.step, written.max_difference, "; ".join(says))


def _tokens(run: Run) -> int:
    from statewise.tasks import count_tokens

    return count_tokens(run.supervision, run.source.symbols, run.source.classes)


def _machine(run: Run, file: Path) -> Exported:
    from statewise.commands.tracked import tracked_machine

    found = tracked_machine(run)
    write_machine(found.machine, file)
    difference = 0.0 if found.proven else None
    return Exported(file.suffix[1:].lower(), file, None, difference, found.says, found.proven)


def _c(run: Run, file: Path) -> Exported:
    """Write the table of a machine that is proven to be the network, or the network as numbers."""
    from statewise.commands.tracked import tracked_machine
    from statewise.export.c_header import c_name, machine_header, network_header, run_header
    from statewise.models import StateTracker

    name = c_name(file.stem)
    try:
        found = tracked_machine(run)
    except NetworkError:
        found = None
    generator = stream(0, "export", "c")
    words = [generator.integers(0, run.source.symbols, length).tolist() for length in _WORD_LENGTHS]
    if found is not None and found.proven:
        header, says = machine_header(found.machine, name, found.says), f"a table: {found.says}"
        write_whole(file, header)
        given = run_header(header, name, words)
        right = [int(found.machine.answer(word[: t + 1])) for word in words for t in range(len(word))]
        difference = None if given is None else float(list(given) != right)
        return Exported("c", file, None, difference, _compiled(says, given), True)
    if not isinstance(run.model, StateTracker):
        raise NetworkError(
            f"{run.name} is no product of matrices, and not proven to be a machine; export it --to onnx, or learn its "
            'machine with "statewise learn" and export that'
        )
    says = "a network as numbers: not proven to equal a machine at every length"
    header = network_header(run.model, run.source, name, says)
    write_whole(file, header)
    given = run_header(header, name, words, logits=True)
    difference = None if given is None else _logit_difference(run, words, given)
    return Exported("c", file, None, difference, _compiled(says, given), False)


def _compiled(says: str, given: object) -> str:
    return f"{says}; there is no C compiler here, so nothing was compared" if given is None else says


def _logit_difference(run: Run, words: list[list[int]], given: Any) -> float:
    """Compare the directions of logits: a header gives them up to a positive factor."""
    import torch

    from statewise.export.network_files import difference

    with torch.no_grad():
        logits = torch.cat([run.model(torch.tensor([word]))[0] for word in words]).double()
    found = torch.from_numpy(given).view_as(logits)
    return difference(*(torch.nn.functional.normalize(each, dim=-1) for each in (found, logits)))


def _safetensors(run: Run, directory: Path) -> Exported:
    """Write weights and config as `save_pretrained` does, and beside them the machine and a card."""
    from statewise.commands.card import model_card
    from statewise.models import StateTracker, is_own
    from statewise.models.pretrained import write_pretrained

    network = run.model
    own = is_own(run.name)
    others: dict[str, bytes] = {}
    if isinstance(run.source, Machine):
        others["machine.json"] = to_json(run.source).encode()
    if isinstance(network, StateTracker) and not own:
        kind, arguments = "StateTracker", network.arguments()
        use = 'import statewise as sw\n\nmodel = sw.StateTracker.from_pretrained(".")'
    else:
        kind, arguments = "build_model", _built(run)
        use = 'from statewise.models import load_pretrained\n\nmodel = load_pretrained(".")'
        if own:
            use = f"# model.safetensors has the weights of {run.name}: load them into that class"
    others["README.md"] = model_card(run, use).encode()
    write_pretrained(directory, network, kind, arguments, others)
    says = f"{run.name} on {shorten(run.source.name)}: {', '.join(sorted(others))}, config.json, model.safetensors"
    return Exported("safetensors", directory, None, _reloaded(run, directory, own), says)


def _built(run: Run) -> Mapping[str, Any]:
    return {
        "model": run.name,
        "symbols": _tokens(run),
        "classes": run.source.classes,
        "hidden": 0 if run.options is None else run.options.hidden,
    }


def _reloaded(run: Run, directory: Path, own: bool) -> float | None:
    """Load the directory again, and compare; a class of one's own is not imported for that."""
    if own:
        return None
    from statewise.export.network_files import compare_models
    from statewise.models import load_pretrained

    return compare_models(run.model, load_pretrained(directory), _tokens(run))


_WRITERS: dict[str, Callable[[Run, Path], Exported]] = {
    "onnx": _onnx,
    "torch": _torch,
    "c": _c,
    "dot": _machine,
    "json": _machine,
    "safetensors": _safetensors,
}
