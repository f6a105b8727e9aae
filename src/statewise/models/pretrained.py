"""Networks saved for others: `config.json`, `model.safetensors`, and a manifest with the hash of each file.

A directory has what builds the network again and nothing of how it was trained: that is what a run directory is for.
The manifest is written last, and nothing is ever unpickled or imported from a directory.
"""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from statewise.errors import ModelError, PretrainedError, UnreadableError, shorten
from statewise.files import write_bytes_whole
from statewise.reading import MAX_WEIGHT_BYTES, parse_json, read_bytes

FORMAT = 1
CONFIG, WEIGHTS, MANIFEST = "config.json", "model.safetensors", "manifest.json"
_DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Network = TypeVar("Network", bound="Pretrained")


class Pretrained(nn.Module, ABC):
    """A network that can be saved into a directory and built again from it."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor that build this network again, up to its weights."""

    @classmethod
    def saved_as(cls) -> str:
        """Return the name of the class in a config; a class for a hub has that of the plain one."""
        return next(kind.__name__ for kind in reversed(cls.__mro__) if Pretrained in kind.__bases__)

    @classmethod
    def earlier_arguments(cls) -> dict[str, Any]:
        """Return arguments that networks saved before they existed are built with."""
        return {}

    def save_pretrained(self, directory: str | os.PathLike[str]) -> Path:
        """Save arguments and weights into a directory, which is made if need be; return its path."""
        return write_pretrained(directory, self, self.saved_as(), self.arguments())

    @classmethod
    def from_pretrained(cls: type[Network], directory: str | os.PathLike[str]) -> Network:
        """Build the network that a directory holds, ready to be evaluated; its files are checked by their hashes."""
        return of_class(cls, directory)


def of_class(kind: type[Network], directory: str | os.PathLike[str]) -> Network:
    """Build the network of a class that a directory holds."""
    config, tensors = read_pretrained(directory)
    if config.get("class") != kind.saved_as():
        raise PretrainedError(
            f'"{shorten(directory)}" holds a {shorten(config.get("class"))}, not a {kind.saved_as()}; '
            "load it with that class"
        )
    return restored(directory, config, tensors, lambda: kind(**kind.earlier_arguments() | config["arguments"]))


def write_pretrained(
    directory: str | os.PathLike[str],
    network: nn.Module,
    kind: str,
    arguments: Mapping[str, Any],
    others: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a network as a directory, the manifest last.

    Args:
        directory: where; files of an earlier save are replaced.
        network: whose weights are written.
        kind: the class that is called with the arguments.
        arguments: what builds the network again.
        others: further files, which the manifest lists too.
    """
    from statewise import __version__

    folder = Path(directory)
    _check_place(folder)
    state = network.state_dict()
    floating = next((value.dtype for value in state.values() if value.is_floating_point()), torch.float32)
    config = {"class": kind, "arguments": dict(arguments), "dtype": str(floating).removeprefix("torch.")}
    contents = dict(others or {}) | {
        CONFIG: (json.dumps(config, indent=1, ensure_ascii=False) + "\n").encode(),
        # each in memory of its own: the format has no word for weights that are shared
        WEIGHTS: save({name: value.detach().cpu().clone().contiguous() for name, value in state.items()}),
    }
    manifest = {
        "format": FORMAT,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())},
        "versions": {"statewise": __version__, "torch": str(torch.__version__)},
    }
    contents[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    for name, content in contents.items():
        write_bytes_whole(folder / name, content)
    return folder


def _check_place(folder: Path) -> None:
    """Refuse a directory whose files of these names are not those of an earlier save, such as that of a run."""
    if folder.exists() and not folder.is_dir():
        raise PretrainedError(f'"{shorten(folder)}" is a file; give the network a directory of its own')
    if any((folder / name).exists() for name in (CONFIG, WEIGHTS, MANIFEST)):
        try:
            listed = parse_json(read_bytes(folder / MANIFEST))
            earlier = {CONFIG, WEIGHTS} <= listed["sha256"].keys()
        except (ValueError, TypeError, KeyError, AttributeError):
            earlier = False
        if not earlier:
            raise PretrainedError(f'"{shorten(folder)}" holds other files of these names; use another directory')


def read_pretrained(directory: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the config and the weights of a directory; damage, and a format of the future, are refused."""
    folder = Path(directory)
    try:
        if not os.path.lexists(folder / MANIFEST):
            raise PretrainedError(f'"{shorten(folder)}" has no {MANIFEST}; give a directory that save_pretrained wrote')
        listed = parse_json(read_bytes(folder / MANIFEST))
        version, hashes = listed["format"], dict(listed["sha256"])
    except PretrainedError:
        raise
    except (ValueError, TypeError, KeyError):
        raise PretrainedError(f'"{shorten(folder / MANIFEST)}" cannot be read; save the network again') from None
    if not isinstance(version, int) or version > FORMAT:
        raise PretrainedError(
            f'"{shorten(folder)}" is of format {shorten(version)}; expected at most {FORMAT}; install a newer statewise'
        )
    contents = {}
    for name in (CONFIG, WEIGHTS):
        try:
            contents[name] = read_bytes(folder / name, MAX_WEIGHT_BYTES, str(hashes.get(name)))
        except UnreadableError as error:
            raise PretrainedError(f'cannot read "{shorten(folder / name)}": {error}; copy or save it again') from None
    try:
        config, tensors = parse_json(contents[CONFIG]), load(contents[WEIGHTS])
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        raise PretrainedError(f'"{shorten(folder)}" holds files of another kind; save the network again') from None
    if not isinstance(config, dict) or not isinstance(config.get("arguments"), dict):
        raise PretrainedError(f'"{shorten(folder / CONFIG)}" has no arguments of a network; save it again')
    return config, tensors


def restored(
    directory: str | os.PathLike[str], config: Mapping[str, Any], tensors: Mapping[str, Tensor], build: Any
) -> Any:
    """Build a network and put the weights of a directory into it."""
    try:
        network = build().to(_DTYPES[config.get("dtype", "float32")])
        network.load_state_dict(tensors)
    except (TypeError, KeyError, ValueError, RuntimeError) as error:
        # an argument of a later version, or a class whose weights have other names
        raise PretrainedError(
            f'the network of "{shorten(directory)}" cannot be built: {shorten(error, 120)}; save it with this version'
        ) from None
    return network.eval()


def refuse_saving(what: str) -> ModelError:
    """Build the error for a network that no config can name."""
    return ModelError(
        f"{what} is a class of one's own, which a directory never makes statewise import; "
        "save its state_dict, and build it yourself"
    )
