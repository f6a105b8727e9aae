"""Checkpoints that survive a full disk, a kill and a flipped bit.

A directory holds `manifest.json` and the one folder that it names. A new folder is written aside first; replacing the
manifest, which also holds the SHA-256 of each file, is the moment at which it counts; the old folder goes last.
"""

import hashlib
import itertools
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from statewise.errors import CheckpointWriteError, RunError, shorten
from statewise.files import reason_of, remove_strays_in, swapped_file, sync_folder

MANIFEST = "manifest.json"
_FOLDER = re.compile(r"step-[0-9]+-[0-9]+")


def write_checkpoint(directory: Path, name: str, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Write tensors and plain values as the directory's checkpoint; on any failure the former one stays."""
    contents = {
        "tensors.safetensors": save(_apart(tensors)),
        "values.json": json.dumps(values).encode(),
    }
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in contents.items()}
    # never the name of a folder that stands there, least of all of the one that counts now
    number = next(n for n in itertools.count() if not (directory / f"{name}-{n}").exists())
    folder = directory / f"{name}-{number}"
    try:
        folder.mkdir(parents=True)
        for file, content in contents.items():
            _write_through(folder / file, content)
        sync_folder(folder)
        with swapped_file(directory / MANIFEST) as stream:
            stream.write(json.dumps({"folder": folder.name, "sha256": hashes}).encode())
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckpointWriteError(
            f'cannot write a checkpoint in "{shorten(directory)}": {reason_of(error)}; the one before stays; make room'
        ) from None
    _keep_only(directory, folder.name)


def remove_unfinished(directory: Path) -> None:
    """Remove what a kill left in a directory: checkpoints that do not count, and files that were written aside."""
    remove_strays_in(directory)
    try:
        counts = json.loads((directory / MANIFEST).read_bytes())["folder"]
    except FileNotFoundError:
        counts = None
    except (OSError, ValueError, KeyError, TypeError):
        # damage is for those who read it
        return
    _keep_only(directory, counts)


def read_checkpoint(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the directory's checkpoint; None where there is none; damage is an error."""
    manifest = directory / MANIFEST
    if not manifest.exists():
        return None
    try:
        listed = json.loads(manifest.read_text())
        contents = {file: (directory / listed["folder"] / file).read_bytes() for file in listed["sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f'the checkpoint in "{shorten(directory)}" is incomplete ({shorten(error)}); start anew'
        ) from None
    for file, content in contents.items():
        if hashlib.sha256(content).hexdigest() != listed["sha256"][file]:
            raise RunError(f'"{shorten(file)}" in "{shorten(directory)}" is damaged: its hash differs; start anew')
    return load(contents["tensors.safetensors"]), json.loads(contents["values.json"])


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors none of which share memory, as tied weights do: the format has no word for that."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone().contiguous() if place in seen else tensor.contiguous()
        seen.add(place)
    return apart


def _keep_only(directory: Path, name: str | None) -> None:
    for other in directory.glob("step-*-*"):
        if other.name != name and _FOLDER.fullmatch(other.name):
            shutil.rmtree(other, ignore_errors=True)


def _write_through(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
