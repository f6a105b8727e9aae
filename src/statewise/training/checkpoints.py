"""Checkpoints that survive a full disk, a kill and a flipped bit.

A directory holds its manifest and the one folder that this names. A new folder is written aside first; replacing the
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

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from statewise.errors import CheckpointWriteError, RunError, UnreadableError, shorten
from statewise.files import reason_of, remove_strays_in, swapped_file, sync_folder
from statewise.reading import MAX_JSON_BYTES, MAX_WEIGHT_BYTES, parse_json, read_bytes
from statewise.training.manifest import MANIFEST, VALUES, WEIGHTS, Manifest, read_manifest

_FOLDER = re.compile(r"step-[0-9]+-[0-9]+")


def write_checkpoint(directory: Path, name: str, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Write tensors and plain values as the directory's checkpoint; on any failure the former one stays."""
    contents = {
        WEIGHTS: save(_apart(tensors)),
        VALUES: json.dumps(values).encode(),
    }
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in contents.items()}
    held = read_manifest(directory) or Manifest()
    # never the name of a folder that stands there, least of all of the one that counts now
    number = next(n for n in itertools.count() if not (directory / f"{name}-{n}").exists())
    folder = directory / f"{name}-{number}"
    try:
        folder.mkdir(parents=True)
        for file, content in contents.items():
            _write_through(folder / file, content)
        sync_folder(folder)
        listed = Manifest.model_validate({"folder": folder.name, "sha256": hashes, "files": held.files})
        with swapped_file(directory / MANIFEST) as stream:
            stream.write(listed.to_json().encode())
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
        held = read_manifest(directory)
    except RunError:
        # damage is for those who read it
        return
    counts = None if held is None else held.folder
    _keep_only(directory, counts)


def read_checkpoint(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the directory's checkpoint; None where there is none; damage is an error."""
    contents = read_checkpoint_files(directory)
    if contents is None:
        return None
    try:
        return parse_tensors(contents[WEIGHTS]), _parse_values(contents[VALUES])
    except UnreadableError as error:
        raise _incomplete(directory, error) from None


def read_checkpoint_files(directory: Path) -> dict[str, bytes] | None:
    """Return the files of the directory's checkpoint by name, with the hashes that the manifest lists."""
    listed = read_manifest(directory)
    if listed is None or listed.folder is None:
        return None
    contents = {}
    for name, sha256 in listed.sha256.items():
        limit = MAX_WEIGHT_BYTES if name == WEIGHTS else MAX_JSON_BYTES
        try:
            contents[name] = read_bytes(directory / listed.folder / name, limit, sha256)
        except UnreadableError as error:
            if "damaged" in str(error):
                raise RunError(f'"{name}" in "{shorten(directory)}": {error}; start anew') from None
            raise _incomplete(directory, error) from None
    return contents


def parse_tensors(content: bytes) -> dict[str, Tensor]:
    """Read tensors from the bytes of a safetensors file."""
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise UnreadableError(f"it holds no tensors: {shorten(error)}") from None


def _parse_values(content: bytes) -> dict[str, Any]:
    values = parse_json(content)
    if not isinstance(values, dict):
        raise UnreadableError(f"{VALUES} holds no object")
    return values


def _incomplete(directory: Path, error: UnreadableError) -> RunError:
    return RunError(f'the checkpoint in "{shorten(directory)}" is incomplete ({shorten(error, 120)}); start anew')


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
